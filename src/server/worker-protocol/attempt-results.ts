/** Reads results of earlier phases from the journal, page by page, for attempts of remote workers. */
import { decodeEntry } from "../../kernel/journal/journal-entry.ts";
import { taskChildId } from "../../kernel/tasks/child-messages.ts";
import { type Rejection, reject } from "../../std/rejection.ts";
import type { ExecutionStore } from "../../store/store.ts";
import type { AttemptRecord } from "./attempt-record.ts";

export interface WantedResults {
  readonly phase: string;
  readonly handler: string;
  readonly visit?: number | undefined;
  readonly cursor?: string | undefined;
  /** If given, the page has the tasks with these numbers as they were enumerated, instead of all outcomes. */
  readonly tasks?: ReadonlySet<number> | undefined;
  /** If given, the results are those of the child that the task of the attempt runs under this name. */
  readonly child?: string | undefined;
}

/** How many journal rows are read for one page. */
const ROWS = 64;
const CHARS = 1_048_576;
/** A cursor, `<next sequence number>-<last>`; a last number of 0 means the end of the journal. */
const CURSOR = /^(\d{1,15})-(\d{1,15})$/;

/** Reads one page as JSON text: `{ data: [{ task, status, result | error }], next }`. */
export async function readResults(
  store: ExecutionStore,
  attempt: AttemptRecord,
  wanted: WantedResults,
): Promise<string | Rejection> {
  const range = rangeOf(attempt, wanted);
  if ("kind" in range) return range;
  const { phase, handler, child } = wanted;
  const { place } = attempt.shared;
  const execution =
    child === undefined ? place.execution : taskChildId(place.execution, place, attempt.task, child);
  const wantedKind = wanted.tasks === undefined ? "tasks.settled" : "tasks.enumerated";
  const data: string[] = [];
  const last = range.last === 0 ? Number.MAX_SAFE_INTEGER : range.last;
  const entries =
    range.from > last
      ? []
      : await store.readJournal({ execution, from: range.from, to: last, rowsMax: ROWS, charsMax: CHARS });
  let next = range.from;
  for (const entry of entries) {
    next = entry.seq + entry.count;
    for (const { seq, event } of decodeEntry(entry)) {
      if ((event.kind !== "tasks.settled" && event.kind !== "tasks.enumerated") || event.kind !== wantedKind)
        continue;
      if (seq < range.from || seq > last) continue;
      if (event.phase !== phase || event.handler !== handler || event.visit !== range.visit) continue;
      if (event.kind === "tasks.enumerated") {
        for (const task of wanted.tasks ?? [])
          if (task >= event.from && task < event.from + event.count)
            data.push(`{"task":${task},"status":"enumerated","data":${event.tasks[task - event.from]}}`);
        continue;
      }
      event.tasks.forEach((task, i) => {
        const field = event.statuses[i] === "done" ? "result" : "error";
        data.push(`{"task":${task},"status":"${event.statuses[i]}","${field}":${event.payloads[i]}}`);
      });
    }
  }
  const isEnd = entries.length === 0 || next > last;
  return `{"data":[${data.join(",")}],"next":${isEnd ? "null" : `"${next}-${range.last}"`}}`;
}

/** The range of journal rows to read: that of the wanted visit, or of the newest visit. A cursor contains its range. */
function rangeOf(
  { shared: { phases } }: AttemptRecord,
  { phase, visit, cursor, child }: WantedResults,
): { visit: number; from: number; last: number } | Rejection {
  const visits = phases.filter((one) => one.phase === phase && one.visit > 0);
  const found = visit === undefined ? visits.at(-1) : visits.find((one) => one.visit === visit);
  const at = visit ?? found?.visit;
  if (cursor === undefined) {
    if (child !== undefined) return { visit: at ?? 1, from: 1, last: 0 };
    if (found !== undefined) return { visit: found.visit, from: found.firstSeq, last: found.lastSeq };
    // If another server granted the attempt, the range of the visit is not known here, and the whole journal is read.
    return at === undefined || phases.length > 0
      ? { visit: 0, from: 2, last: 1 }
      : { visit: at, from: 1, last: 0 };
  }
  const parts = CURSOR.exec(cursor);
  if (parts === null || at === undefined)
    return reject("invalid_input", "cursor: must be the `next` value of a page", { path: "cursor" });
  return { visit: at, from: Math.max(1, Number(parts[1])), last: Number(parts[2]) };
}
