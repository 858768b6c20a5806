/** Restores lost rows: heads of executions from their journals, and the pointers to the newest definitions from the newest executions. */
import { readDefinition } from "../kernel/definition/read-definition.ts";
import { decodeReadable, type Entry, executionOf } from "../kernel/journal/journal-entry.ts";
import { isRejection } from "../std/rejection.ts";
import { partitionOf } from "./partition-of.ts";
import type { Head, TableFinding } from "./store.ts";

/** Derives the head that an execution had at its start, from its journal. Returns a text with the reason if that is not possible. */
export function firstHead(row: Entry | null, partitions: number): Head | string {
  if (row === null || row.damage !== undefined) return "the first row of the journal cannot be read";
  const id = executionOf(row);
  if (id === null) return "the first row of the journal does not name an execution";
  const created = decodeReadable(row)[0]?.event;
  if (created?.kind !== "created") return "the journal does not begin with a created event";
  const { workflow, hash, project, tags } = created;
  return {
    ...{ id, partition: partitionOf(id, partitions), workflow, hash, project, tags },
    ...{ status: "running", phase: null, want: "work", priority: 0 },
    ...{ createdAt: row.at, finishedAt: null, error: null },
  };
}

export function lostHead(e: number, head: Head | string, isRepaired: boolean): TableFinding {
  const message =
    typeof head === "string"
      ? `journal ${e} has no row in the table of executions, and the row cannot be derived: ${head}`
      : `execution ${head.id} has a journal, but no row in the table of executions`;
  return { table: "executions", message, isRepaired };
}

/** A workflow that has executions but no newest definition, with the definition of its newest execution. */
export interface LostDefinition {
  readonly name: string;
  readonly hash: string;
  readonly body: string;
}

/**
 * Returns the finding about a workflow without a newest definition. Returns null if the definition has another name, because
 * then the head of the execution is wrong.
 */
export function lostDefinition(
  { name, hash, body }: LostDefinition,
  isRepaired: boolean,
): TableFinding | null {
  const definition = readDefinition(body, hash);
  if (definition === null || isRejection(definition) || definition.name !== name) return null;
  const message = `workflow ${name} has executions, but no newest definition; its newest execution has the definition ${hash.slice(0, 12)}`;
  return { table: "newest_definitions", message, isRepaired };
}
