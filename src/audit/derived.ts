/** What follows from a journal and is kept beside it, for lists and for waking up: the head, and the rows of timers. */
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

/** What there should be, and what of the stored is otherwise, one sentence each. */
export function compareDerived(
  stored: { readonly head: StoredHead; readonly timers: readonly Timer[] },
  said: { readonly view: ExecutionView; readonly timers: readonly Timer[]; readonly partition: number },
): { readonly derived: Derived; readonly wrong: readonly string[] } {
  const head = headOf(said.view, said.partition, stored.head);
  const wrong: string[] = FIELDS.flatMap((field) => {
    const [shown, right] = [stored.head[field], head[field]];
    if (shown === right) return [];
    return `lists show the ${field} ${shown ?? "of nothing"}; the journal says ${right ?? "nothing"}`;
  });
  if (head.want !== stored.head.want)
    wrong.push(`it is kept as one that wants ${stored.head.want}; it has work to do`);
  if (textOf(head.tags) !== textOf(stored.head.tags))
    wrong.push(`lists show the tags ${textOf(stored.head.tags)}; the journal says ${textOf(head.tags)}`);
  const own = stored.timers.filter(({ timer }) => !timer.startsWith("~"));
  const [kept, due] = [new Map(own.map(pair)), new Map(said.timers.map(pair))];
  for (const [timer, at] of due)
    if (kept.get(timer) !== at)
      wrong.push(`timer ${timer} is due at ${at}; it is kept as ${kept.get(timer) ?? "not set"}`);
  for (const timer of kept.keys()) if (!due.has(timer)) wrong.push(`timer ${timer} is kept, and is not set`);
  return { derived: { head, timers: said.timers, end: said.view.revision }, wrong };
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
