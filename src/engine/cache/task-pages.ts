/** Reads the JSON texts and keys of tasks from the pages in memory, and requests missing pages from the store. */
import { nameOf, pointedAt } from "../../kernel/definition/task-name.ts";
import type { Execution } from "../../kernel/execution.ts";
import { decodeReadable, type Entry } from "../../kernel/journal/journal-entry.ts";
import { compensatedTask } from "../../kernel/tasks/compensation.ts";
import type { Compensation } from "../../protocol/work.ts";
import type { HandlerQueue } from "../dispatch/handler-queue.ts";
import type { NodeState } from "../node-state.ts";
import type { Page } from "./page-cache.ts";
import type { Slot } from "./slot.ts";

/** The task's JSON text; undefined if its page is not in memory. */
export function taskText(node: NodeState, slot: Slot, queue: HandlerQueue, task: number): string | undefined {
  if (!queue.state.paged) return (slot.execution as Execution).input;
  const page = pageAt(node, slot, queue, task);
  return page?.tasks[task - page.from];
}

/** Returns the task's key; undefined if the task has none, or its page is not in memory. */
export function taskKey(node: NodeState, slot: Slot, queue: HandlerQueue, task: number): string | undefined {
  if (!queue.state.paged) return inputKey(slot, queue);
  const page = pageAt(node, slot, queue, task);
  return page?.keys?.[task - page.from];
}

/** Returns the key of a handler's only task, whose data is the input of the execution. */
function inputKey(slot: Slot, queue: HandlerQueue): string | undefined {
  const { key } = queue.state.plan.definition;
  if (typeof key !== "string") return undefined;
  if (queue.inputKey === undefined)
    queue.inputKey = nameOf(pointedAt(JSON.parse((slot.execution as Execution).input), key));
  return queue.inputKey ?? undefined;
}

/** Returns the page that contains the task, if it is in memory. The queue remembers the last page, since tasks are read in order. */
function pageAt(node: NodeState, slot: Slot, queue: HandlerQueue, task: number): Page | undefined {
  const last = queue.page;
  if (last !== null && task >= last.from && task < last.from + last.tasks.length) return last;
  const page = node.pages.get(slot.id, queue.state.pageOf(task));
  if (page !== undefined) queue.page = page;
  return page;
}

/** The outcome and result of the task that this task compensates; undefined if the row with the result is not in memory. */
export function compensationOf(
  node: NodeState,
  slot: Slot,
  queue: HandlerQueue,
  task: number,
): Compensation | undefined {
  const { outcome, result: seq } = compensatedTask(slot.execution as Execution, queue.state, task);
  if (outcome !== "done") return { outcome, result: null };
  const page = node.pages.results(slot.id, seq);
  const result = page?.tasks[page.numbers.indexOf(task)];
  if (result !== undefined) return { outcome, result };
  queue.resultSeqs.add(seq);
  fetchRow(node, slot, queue, seq);
  return undefined;
}

/** Requests the page with the task from the store. */
export function fetchPage(node: NodeState, slot: Slot, queue: HandlerQueue, task: number): void {
  fetchRow(node, slot, queue, queue.state.pageOf(task));
}

function fetchRow(node: NodeState, slot: Slot, queue: HandlerQueue, seq: number): void {
  if (queue.fetching === seq) return;
  queue.fetching = seq;
  node.emit({ kind: "read-page", execution: slot.id, seq });
}

/** Keeps a requested page in the cache and in the queue. Returns false if the page cannot be read. */
export function pageRead(
  node: NodeState,
  slot: Slot,
  queue: HandlerQueue,
  read: { readonly seq: number; readonly entry: Entry | null },
): boolean {
  const { seq, entry } = read;
  queue.fetching = -1;
  let isThere = false;
  for (const { event, seq: at } of entry === null ? [] : decodeReadable(entry)) {
    if (event.kind === "tasks.settled" && at === seq) {
      node.pages.put(slot.id, at, { numbers: event.tasks, tasks: event.payloads }, true);
      isThere = true;
    }
    if (event.kind !== "tasks.enumerated") continue;
    node.pages.put(slot.id, at, event, at === seq);
    if (at !== seq) continue;
    queue.page = event;
    isThere = true;
  }
  return isThere;
}
