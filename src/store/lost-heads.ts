/** Derives lost rows: heads from journals, and pointers to newest definitions from the newest executions. */
import { readDefinition } from "../kernel/definition/read-definition.ts";
import { decodeReadable, type Entry, executionOf } from "../kernel/journal/journal-entry.ts";
import { isRejection } from "../std/rejection.ts";
import { partitionOf } from "./partition-of.ts";
import type { Head, TableFinding } from "./store.ts";

/** Derives the head at the start of an execution; returns a text with the reason if it cannot be derived. */
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
      ? `journal ${e} has no execution, and none can be derived: ${head}`
      : `execution ${head.id} has a journal and is missing in the table of executions`;
  return { table: "executions", message, isRepaired };
}

/** A workflow that has executions and no newest definition, with the definition of its newest execution. */
export interface LostDefinition {
  readonly name: string;
  readonly hash: string;
  readonly body: string;
}

/**
 * The finding about a workflow without a newest definition; null if the definition has another name: then the head is wrong,
 * not the pointer.
 */
export function lostDefinition(
  { name, hash, body }: LostDefinition,
  isRepaired: boolean,
): TableFinding | null {
  const definition = readDefinition(body, hash);
  if (definition === null || isRejection(definition) || definition.name !== name) return null;
  const message = `workflow ${name} has executions and no newest definition; its newest execution has ${hash.slice(0, 12)}`;
  return { table: "newest_definitions", message, isRepaired };
}
