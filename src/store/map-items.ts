/**
 * Reads the items of a `map` for the child that runs them. They are in the journal of the parent, as steps of the task that called `map`.
 */
import type { Event } from "../kernel/event.ts";
import { decodeEntry } from "../kernel/journal/journal-entry.ts";
import { type Rejection, reject } from "../std/rejection.ts";
import type { ExecutionStore } from "./store.ts";

/**
 * Reads a page of the items of a child, counted from 0, as the JSON text of a list; null after the last page. The first event
 * of the child says where the pages are in its parent's journal.
 */
export async function readMapItems(
  store: Pick<ExecutionStore, "readJournal">,
  execution: string,
  page: number,
): Promise<string | null | Rejection> {
  const created = await readEvent(store, execution, 1);
  const { parent, input = "null" } = created?.kind === "created" ? created : {};
  const { pages } = (JSON.parse(input) ?? {}) as { readonly pages?: unknown };
  if (parent === undefined || !Array.isArray(pages))
    return reject("not_found", "the execution was not started by `map`, so it has no items");
  const seq: unknown = pages[page];
  if (seq === undefined) return null;
  const step = Number.isSafeInteger(seq)
    ? await readEvent(store, parent.execution, seq as number)
    : undefined;
  const isItems = step?.kind === "task.step" && step.map === parent.name && step.task === parent.task;
  if (!isItems || step.result === null)
    return reject("not_found", `execution ${parent.execution} has no page ${page} of the items of this map`);
  return step.result;
}

async function readEvent(
  store: Pick<ExecutionStore, "readJournal">,
  execution: string,
  seq: number,
): Promise<Event | undefined> {
  const [entry] = await store.readJournal({ execution, from: seq, to: seq, rowsMax: 1 });
  return entry === undefined ? undefined : decodeEntry(entry)[seq - entry.seq]?.event;
}
