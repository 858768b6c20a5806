/** Checks of writes, shared by the adapters. A malformed write fails an assertion; a write by a stale owner is `fenced`. */
import { assertContiguous } from "../kernel/journal/journal-entry.ts";
import { assert } from "../std/assert.ts";
import type { ExecutionWrite, Fence } from "./store.ts";

/** Asserts that a write is well-formed: rows without gaps, whole numbers, the head of its own execution, a head if it creates. */
export function assertWritable(write: ExecutionWrite, partition: number): void {
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
  assert(head.partition === partition, "a head has the partition of its execution");
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

/** Asserts that kind and id of a document are texts that every database can store and sort. */
export function assertDocumentKey(kind: string, id: string): void {
  for (const text of [kind, id])
    assert(
      text !== "" && !text.includes("\0") && text.isWellFormed(),
      "a document has a kind and an id, in plain text",
    );
}

/** Why the fence holds for no partition; null if its generation is current. */
export function whyOtherGeneration(fence: Fence, generation: string): string | null {
  if (fence.generation === generation) return null;
  return `the store is of generation ${generation}, the owner of ${fence.generation}`;
}

/**
 * Why writes to a partition are refused; null if the fence holds. `epoch` is the epoch of the partition's owner, or null if it
 * has none.
 */
export function whyStale(fence: Fence, partition: number, epoch: number | null): string | null {
  const given = fence.epochs[partition];
  if (given === undefined) return `partition ${partition} is not the owner's`;
  if (epoch === null) return `partition ${partition} was released`;
  if (given === epoch) return null;
  return `partition ${partition} is in epoch ${epoch}, the owner in ${given}`;
}

/**
 * Why a write does not continue its journal; null if it does. The journal ends at `end`, which is null if the execution does
 * not exist.
 */
export function whyNotAtEnd(write: { execution: string; after: number }, end: number | null): string | null {
  if (end === null) return `there is no execution ${write.execution}`;
  if (end === write.after) return null;
  return `the journal of ${write.execution} ends at ${end}, the write goes after ${write.after}`;
}
