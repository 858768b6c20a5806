/**
 * What follows from a journal and is kept beside it: the head for lists, the rows of timers for waking up, and marks of how
 * far pages of tasks were opened. Of a mark the journal tells bounds only. Where one cannot be right, all pages that the
 * journal has count as opened: then a task that may have begun starts carefully, which is always safe.
 */
import type { ExecutionView } from "../kernel/view.ts";
import type { Derived, Head, StoredHead } from "../store/store.ts";

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

/** How far pages of a handler can have been opened. */
export interface PageBounds {
  readonly least: number;
  readonly most: number;
}

/** What there should be, and what of the stored is otherwise, one sentence each. */
export function compareDerived(
  stored: {
    readonly head: StoredHead;
    readonly timers: readonly Timer[];
    readonly opened: Readonly<Record<string, number>>;
  },
  said: {
    readonly view: ExecutionView;
    readonly timers: readonly Timer[];
    readonly pages: ReadonlyMap<string, PageBounds>;
    readonly partition: number;
  },
): { readonly derived: Derived; readonly wrong: readonly string[] } {
  const head = headOf(said.view, said.partition, stored.head);
  const wrong: string[] = FIELDS.flatMap((field) => {
    const [shown, right] = [stored.head[field], head[field]];
    if (shown === right) return [];
    return `lists show the ${field} ${shown ?? "(none)"}; the journal says ${right ?? "(none)"}`;
  });
  if (head.want !== stored.head.want)
    wrong.push(`its head says that it wants ${stored.head.want}; by the journal it has work to do`);
  if (textOf(head.tags) !== textOf(stored.head.tags))
    wrong.push(`lists show the tags ${textOf(stored.head.tags)}; the journal says ${textOf(head.tags)}`);
  const own = stored.timers.filter(({ timer }) => !timer.startsWith("~"));
  const [kept, due] = [new Map(own.map(pair)), new Map(said.timers.map(pair))];
  for (const [timer, at] of due)
    if (kept.get(timer) !== at)
      wrong.push(`timer ${timer} is due at ${at}; the stored time is ${kept.get(timer) ?? "missing"}`);
  for (const timer of kept.keys())
    if (!due.has(timer)) wrong.push(`timer ${timer} is stored, but the journal has not set it`);
  const wrongMarks = Object.entries(stored.opened).flatMap(([name, value]) =>
    isPossible(name, value, said) ? [] : `mark ${name} of opened pages is ${value}, which is impossible`,
  );
  const opened = wrongMarks.length === 0 ? null : marksOf(stored.opened, said);
  const derived = { head, timers: said.timers, opened, end: said.view.revision };
  return { derived, wrong: [...wrong, ...wrongMarks] };
}

/** Marks of an execution besides those of handlers: how far its events are published. */
const EVENTS = "~events";
/** What may follow the name of a handler's mark: careful starts, enumeration, or the marks of a command at a broker. */
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

/** Those that can be right, and for each handler that all of its pages were opened. Events are published again. */
function marksOf(stored: Readonly<Record<string, number>>, said: Said): Record<string, number> {
  const right = Object.entries(stored).filter(([name, value]) => isPossible(name, value, said));
  const opened = [...said.pages].map(([name, { most }]) => [name, most] as const);
  const events = EVENTS in stored ? { [EVENTS]: 0 } : {};
  return { ...events, ...Object.fromEntries(right), ...Object.fromEntries(opened) };
}

function headOf(view: ExecutionView, partition: number, stored: StoredHead): Head {
  const {
    id,
    workflow,
    workflowHash: hash,
    project,
    status,
    phase,
    createdAt,
    finishedAt,
    tags,
    error,
  } = view;
  const isOver = finishedAt !== null;
  const isKnown = stored.want === "work" || stored.want === "time" || (isOver && stored.want === "nothing");
  return {
    ...{ id, partition, workflow, hash, project, status, phase, createdAt, finishedAt, tags },
    // Whoever has it loads it then, and finds out what it wants.
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
