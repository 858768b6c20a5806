/**
 * Data that is derived from a journal and stored beside it: the head, timers, and marks of opened pages. From the journal only the least
 * and the highest value of a mark can be computed. If a stored mark is outside these bounds, all pages count as opened. Their tasks may
 * have begun, so they get a careful start, which is always safe.
 */
import type { ExecutionView } from "../kernel/view.ts";
import { type Derived, type Head, headTags, type StoredHead } from "../store/store.ts";

const ERROR_CHARS = 500;
const FIELDS = [
  "workflow",
  "hash",
  "project",
  "status",
  "phase",
  "createdAt",
  "finishedAt",
  "error",
  "priority",
  "partition",
] as const;

interface Timer {
  readonly timer: string;
  readonly due: number;
}

/** The least and the highest possible end of a handler's opened pages, as a task number. */
export interface PageBounds {
  readonly least: number;
  readonly most: number;
}

/** The newest execution that continues another one under the same id: whether it is open, and when it began or ended. */
export interface NewestFollower {
  readonly isOpen: boolean;
  readonly at: number;
}

/** Computes the derived data from the journal. Returns it, with one sentence for each difference from the stored data. */
export function compareDerived(
  stored: {
    readonly head: StoredHead;
    readonly timers: readonly Timer[];
    readonly opened: Readonly<Record<string, number>>;
  },
  said: {
    readonly view: ExecutionView;
    /** The hash of the definition with which the execution was created. */
    readonly hash: string;
    readonly timers: readonly Timer[];
    readonly pages: ReadonlyMap<string, PageBounds>;
    readonly partition: number;
    readonly newest: NewestFollower | null;
  },
): { readonly derived: Derived; readonly wrong: readonly string[] } {
  const head = headOf(said, stored.head);
  const wrong: string[] = FIELDS.flatMap((field) => {
    const [shown, right] = [stored.head[field], head[field]];
    if (shown === right) return [];
    return `execution lists show the ${field} ${shown ?? "(none)"}, but by the journal it is ${right ?? "(none)"}`;
  });
  if (head.want !== stored.head.want)
    wrong.push(
      `the stored head says that the execution wants "${stored.head.want}", but by the journal it has work to do`,
    );
  if (textOf(head.tags) !== textOf(stored.head.tags))
    wrong.push(
      `execution lists show the tags ${textOf(stored.head.tags)}, but by the journal they are ${textOf(head.tags)}`,
    );
  const own = stored.timers.filter(({ timer }) => !timer.startsWith("~"));
  const [kept, due] = [new Map(own.map(pair)), new Map(said.timers.map(pair))];
  for (const [timer, at] of due)
    if (kept.get(timer) !== at)
      wrong.push(
        `timer ${timer} is due at ${at} by the journal, but the stored time is ${kept.get(timer) ?? "missing"}`,
      );
  for (const timer of kept.keys())
    if (!due.has(timer)) wrong.push(`timer ${timer} is stored, but by the journal it is not set`);
  const wrongMarks = Object.entries(stored.opened).flatMap(([name, value]) =>
    isPossible(name, value, said)
      ? []
      : `mark ${name} of opened pages is ${value}, which is impossible by the journal`,
  );
  const opened = wrongMarks.length === 0 ? null : marksOf(stored.opened, said);
  const derived = { head, timers: said.timers, opened, end: said.view.revision };
  return { derived, wrong: [...wrong, ...wrongMarks] };
}

/** The name of the mark that says up to which event the journal was published. */
const EVENTS = "~events";
/** The name of a mark: the handler, and a suffix for careful starts, for the enumeration, or for a command at a broker. */
const MARK = /^(?<handler>.*?)(?<kind>|\?(?:below|epoch)?|!|@\d+[#%]?)$/;

type Said = Parameters<typeof compareDerived>[1];

function isPossible(name: string, value: number, { view, pages }: Said): boolean {
  if (!Number.isSafeInteger(value) || value < 0) return false;
  if (name === EVENTS) return value <= view.revision;
  const { handler = "", kind = "" } = MARK.exec(name)?.groups ?? {};
  const bounds = pages.get(handler);
  if (bounds === undefined) return false;
  if (kind === "") return value >= bounds.least && value <= bounds.most;
  return (kind !== "?" && kind !== "?below") || value <= bounds.most;
}

/**
 * Returns the repaired marks. All pages of each handler count as opened. Other marks within their bounds are kept. If the mark of
 * published events is wrong, it becomes 0, so that all events are published again.
 */
function marksOf(stored: Readonly<Record<string, number>>, said: Said): Record<string, number> {
  const right = Object.entries(stored).filter(([name, value]) => isPossible(name, value, said));
  const opened = [...said.pages].map(([name, { most }]) => [name, most] as const);
  const events = EVENTS in stored ? { [EVENTS]: 0 } : {};
  return { ...events, ...Object.fromEntries(right), ...Object.fromEntries(opened) };
}

function headOf({ view, hash, partition, newest }: Said, stored: StoredHead): Head {
  const { id, workflow, workflowHash, project, status, phase, createdAt, error } = view;
  const tags = headTags(view.tags, hash, workflowHash);
  const isOver = view.finishedAt !== null;
  // Retention counts from this time. It deletes the first execution of an id after the newest execution of that id has ended.
  const finishedAt = isOver && newest?.isOpen === false ? newest.at : view.finishedAt;
  const mayWantNothing = isOver && newest?.isOpen !== true;
  const isKnown =
    stored.want === "work" || stored.want === "time" || (mayWantNothing && stored.want === "nothing");
  return {
    ...{ id, partition, workflow, hash, project, status, phase, createdAt, finishedAt, tags },
    // The head says that the execution has work. Its owner then loads it and finds out what it waits for.
    want: isKnown ? stored.want : "work",
    priority: 0,
    error: isOver && error !== null ? `${error.code}: ${error.message}`.slice(0, ERROR_CHARS) : null,
  };
}

function pair({ timer, due }: Timer): readonly [string, number] {
  return [timer, due];
}

function textOf(tags: Readonly<Record<string, string>>): string {
  return JSON.stringify(Object.entries(tags).sort(([a], [b]) => (a < b ? -1 : 1)));
}
