/**
 * Checks of writes that all store adapters share. A malformed write fails an assertion; a write by a stale owner is answered
 * with `fenced`.
 */
import { assertContiguous } from "../kernel/journal/journal-entry.ts";
import { assert } from "../std/assert.ts";
import type { ExecutionWrite, Fence } from "./store.ts";

/**
 * Asserts that a write is well-formed: no gaps between rows, whole numbers, the head of the same execution, and a head if it
 * creates the execution.
 */
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
    for (const { tasks } of write.deadLetters)
      assert(tasks.length > 0, "a dead letter has at least one task");
  if (create)
    assert(
      head !== null && after === 0,
      "a write that creates an execution has a head, and its journal starts at 0",
    );
  if (head === null) return;
  assert(head.id === execution, "a head is written with its own execution");
  assert(head.partition === partition, "a head has the partition of its execution");
  assert(
    head.project !== "" && head.workflow !== "" && head.status !== "",
    "the project, workflow and status of a head are not empty",
  );
}

function assertLines(logs: NonNullable<ExecutionWrite["logs"]>): void {
  for (const { lines } of logs)
    for (const { n, at } of lines)
      assert(
        n >= 1 && Number.isSafeInteger(n) && Number.isSafeInteger(at),
        "log lines have a number and a time",
      );
}

/** Asserts that kind and id of a document are texts that every database can store and sort. */
export function assertDocumentKey(kind: string, id: string): void {
  for (const text of [kind, id])
    assert(
      text !== "" && !text.includes("\0") && text.isWellFormed(),
      "the kind and the id of a document are texts that are not empty",
    );
}

/** Returns why the store refuses all writes of this owner: its fence has another generation. Null if the generation is current. */
export function whyOtherGeneration(fence: Fence, generation: string): string | null {
  if (fence.generation === generation) return null;
  return `the store has generation ${generation}, but the writer opened generation ${fence.generation}`;
}

/**
 * Returns why writes to a partition are refused; null if the fence has the current epoch. `epoch` is the epoch of the
 * partition's owner, or null if the partition has no owner.
 */
export function whyStale(fence: Fence, partition: number, epoch: number | null): string | null {
  const given = fence.epochs[partition];
  if (given === undefined) return `partition ${partition} does not belong to the writer`;
  if (epoch === null) return `partition ${partition} was released`;
  if (given === epoch) return null;
  return `partition ${partition} is in epoch ${epoch}, but the writer is in epoch ${given}`;
}

/**
 * Returns why a write does not continue the journal of its execution; null if it does. The journal ends at `end`, which is null
 * if the execution does not exist.
 */
export function whyNotAtEnd(write: { execution: string; after: number }, end: number | null): string | null {
  if (end === null) return `there is no execution ${write.execution}`;
  if (end === write.after) return null;
  return `the journal of ${write.execution} ends at event ${end}, but the write continues after event ${write.after}`;
}
