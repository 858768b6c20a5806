/** Reads executions as command documents: the state comes from the engine, the results of receipts from the journal. */
import { type ReadCommand, workflowDocument } from "../../commands/workflow-document.ts";
import type { Inspection } from "../../engine/io.ts";
import { type OwnCommand, ownCommands } from "../../kernel/command/own-command.ts";
import type { WorkflowDocument } from "../../protocol/command-document.ts";
import { assert } from "../../std/assert.ts";
import { isRejection, type Rejection, reject } from "../../std/rejection.ts";
import type { Store } from "../../store/store.ts";
import { EventReader } from "../views/event-reader.ts";
import type { Definitions, KnownDefinition } from "./definitions.ts";

export interface ReaderParts {
  readonly store: Pick<Store, "readJournal">;
  readonly definitions: Definitions;
}

/** Reads the document of an execution. `given` is its definition, and `own` its commands, if the caller has them. */
export async function readCommands(
  { store, definitions }: ReaderParts,
  { view, commands = [] }: Pick<Inspection, "view" | "commands">,
  given?: KnownDefinition,
  own?: readonly OwnCommand[],
): Promise<WorkflowDocument | Rejection> {
  if (commands.length === 0)
    return reject("not_found", `execution ${view.id} has no commands`, {
      hint: `see it at /v1/executions/${view.id}`,
    });
  const known = given?.hash === view.workflowHash ? given : await definitions.byHash(view.workflowHash);
  if (isRejection(known)) return known;
  const events = new EventReader(store, view.id);
  const read: ReadCommand[] = [];
  const owned = own ?? ownCommands(known.plan, view.input);
  for (const command of commands) {
    const planned = known.plan.commands[command.step];
    const one = owned[command.step];
    assert(
      planned !== undefined && one !== undefined,
      "the plan of the definition must have every command of the execution",
    );
    read.push({ planned, own: one, view: command, result: await resultAt(events, command.receipt) });
  }
  return workflowDocument(view, read);
}

/** Reads the result of the receipt with this sequence number from the journal. */
async function resultAt(events: EventReader, seq: number | null): Promise<ReadCommand["result"]> {
  const event = seq === null ? null : await events.at(seq);
  if (event?.kind !== "command.receipted" || event.result === null) return null;
  return { value: events.value(event.result) };
}
