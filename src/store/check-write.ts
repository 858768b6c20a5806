/**
 * What every adapter expects of a write, and the words in which it refuses one. A badly formed write is a bug of
 * the engine and is asserted; a write by a stale owner is `fenced` and says why.
 */
import { assertContiguous } from "../kernel/journal-entry.ts";
import { assert } from "../std/assert.ts";
import type { ExecutionWrite, Fence } from "./store.ts";

/** Asserts that a write hangs together: rows without gaps, whole numbers, its own head, a head when it creates. */
export function assertWritable(write: ExecutionWrite): void {
  const { execution, create, after, entries, head } = write;
  assertContiguous(entries, after + 1);
  for (const { count, at } of entries) {
    assert(count > 0, "a journal row holds at least one event");
    assert(Number.isSafeInteger(at), "times are whole milliseconds");
  }
  for (const { due } of write.timersSet)
    assert(Number.isSafeInteger(due), "timers are due at whole milliseconds");
  if (write.logs !== undefined) assertLines(write.logs);
  if (write.deadLetters !== undefined)
    for (const { tasks } of write.deadLetters) assert(tasks.length > 0, "a dead letter names its tasks");
  if (create) assert(head !== null && after === 0, "a created execution has a head and starts at 0");
  if (head === null) return;
  assert(head.id === execution, "a head is written with its own execution");
  assert(
    head.project !== "" && head.workflow !== "" && head.status !== "",
    "project, workflow and status have names",
  );
}

function assertLines(logs: NonNullable<ExecutionWrite["logs"]>): void {
  for (const { lines } of logs)
    for (const { n, at } of lines)
      assert(n >= 1 && Number.isSafeInteger(n) && Number.isSafeInteger(at), "lines have a number and a time");
}

/** Asserts that a document has a kind and an id that every database can keep and sort. */
export function assertDocumentKey(kind: string, id: string): void {
  for (const text of [kind, id])
    assert(
      text !== "" && !text.includes("\0") && text.isWellFormed(),
      "a document has a kind and an id, in plain text",
    );
}

/** Why a commit under this fence is refused; null: it holds. */
export function whyStale(given: Fence, current: Fence): string | null {
  if (given.generation !== current.generation)
    return `the store is of generation ${current.generation}, the owner of ${given.generation}`;
  if (given.epoch !== current.epoch)
    return `the store is in epoch ${current.epoch}, the owner in ${given.epoch}`;
  return null;
}

/** Why a write is refused whose execution ends elsewhere (`end` is null when there is no such execution). */
export function whyNotAtEnd(write: { execution: string; after: number }, end: number | null): string | null {
  if (end === null) return `there is no execution ${write.execution}`;
  if (end === write.after) return null;
  return `the journal of ${write.execution} ends at ${end}, the write goes after ${write.after}`;
}
