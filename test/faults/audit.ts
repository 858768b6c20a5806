/**
 * Re-derives from an execution's public journal what must be so, whatever broke meanwhile: numbers without gaps, each task
 * settled once, counts that are those of the facts, steps journaled once, phases one after another, one end. And compares
 * it with what user code noted: whatever counts as done was really begun, and no step ran after it was journaled.
 */
import type { Noted } from "./ledger.ts";

export interface JournalEvent {
  readonly seq: number;
  readonly kind: string;
  readonly phase?: string;
  readonly visit?: number;
  readonly handler?: string;
  readonly [field: string]: unknown;
}

export interface TaskRow {
  readonly n: number;
  readonly attempt: number;
  readonly status?: string;
  readonly worker?: string;
  readonly reason?: string | null;
  readonly accepted?: boolean;
  readonly result?: unknown;
}

export interface ExecutionView {
  readonly id: string;
  readonly workflow: string;
  readonly status: string;
  readonly output: unknown;
  readonly error: unknown;
  readonly revision: number;
  readonly phases: readonly {
    readonly name: string;
    readonly visit: number;
    readonly handlers: readonly {
      readonly name: string;
      readonly total: number;
      readonly done: number;
      readonly failed: number;
      readonly running: number;
    }[];
  }[];
}

/** The rows of an event that is about several tasks. */
export function rowsOf(event: JournalEvent): readonly TaskRow[] {
  return (event["tasks"] ?? []) as readonly TaskRow[];
}

/** What is wrong; nothing, if all is well. The execution must be over. */
export function audit(
  view: ExecutionView,
  events: readonly JournalEvent[],
  noted: readonly Noted[],
): string[] {
  const wrong = [...auditOrder(view, events), ...auditHandlers(view, events), ...auditNotes(events, noted)];
  return wrong.map((what) => `${view.id}: ${what}`);
}

function auditOrder(view: ExecutionView, events: readonly JournalEvent[]): string[] {
  const wrong: string[] = [];
  events.forEach(({ seq }, i) => {
    if (seq !== i + 1) wrong.push(`event ${i + 1} has the number ${seq}`);
  });
  if (events.length !== view.revision) wrong.push(`${events.length} events, revision ${view.revision}`);
  const ends = events.filter(({ kind }) => kind === "workflow.finished");
  if (ends.length !== 1) wrong.push(`it ended ${ends.length} times`);
  if (ends[0]?.["status"] !== view.status)
    wrong.push(`it is ${view.status}, and ended ${String(ends[0]?.["status"])}`);
  let open: string | null = null;
  for (const { kind, phase, visit, seq } of events) {
    const at = `${phase}/${visit}`;
    if (kind === "workflow.phase.started") {
      if (open !== null) wrong.push(`${at} starts at ${seq} while ${open} is open`);
      open = at;
    } else if (kind === "workflow.phase.finished") {
      if (open !== at) wrong.push(`${at} finishes at ${seq} while ${open} is open`);
      open = null;
    }
  }
  return wrong;
}

/** What the journal says of one handler in one visit. */
class HandlerFacts {
  total = 0;
  readonly settled = new Map<number, string>();
  finished: JournalEvent | null = null;
}

function auditHandlers(view: ExecutionView, events: readonly JournalEvent[]): string[] {
  const wrong: string[] = [];
  const handlers = new Map<string, HandlerFacts>();
  for (const event of events) {
    if (event.handler === undefined) continue;
    const at = `${event.phase}/${event.visit}/${event.handler}`;
    const facts = handlers.get(at) ?? new HandlerFacts();
    handlers.set(at, facts);
    if (event.kind === "workflow.tasks.enumerated") {
      if (event["from"] !== facts.total)
        wrong.push(`${at}: a page from ${String(event["from"])} after ${facts.total}`);
      facts.total += event["count"] as number;
    } else if (event.kind === "workflow.tasks.settled") {
      for (const { n, status = "", result } of rowsOf(event)) {
        const id = (result as { id?: number } | null | undefined)?.id;
        if (event.phase === "work" && status === "done" && id !== n)
          wrong.push(`${at}: task ${n} has the result of ${id}`);
        if (facts.settled.has(n)) wrong.push(`${at}: task ${n} is settled twice, again at ${event.seq}`);
        facts.settled.set(n, status);
      }
    } else if (event.kind === "workflow.handler.finished") {
      if (facts.finished !== null) wrong.push(`${at} finishes twice`);
      facts.finished = event;
    }
  }
  for (const [at, facts] of handlers) wrong.push(...auditCounts(view, at, facts));
  return wrong;
}

function auditCounts(view: ExecutionView, at: string, facts: HandlerFacts): string[] {
  const { settled, finished, total } = facts;
  const wrong: string[] = [];
  const count = (status: string): number => [...settled.values()].filter((one) => one === status).length;
  const [done, failed] = [count("done"), count("failed")];
  if (total > 0 && settled.size !== total) wrong.push(`${at}: ${settled.size} of ${total} tasks are settled`);
  if (finished === null) return [...wrong, `${at} never finishes`];
  if (finished["done"] !== done || finished["failed"] !== failed)
    wrong.push(`${at} finishes with ${JSON.stringify(finished)}, and has ${done} done, ${failed} failed`);
  const [phase, visit, handler] = at.split("/");
  const shown = view.phases
    .find(({ name, visit: nth }) => name === phase && nth === Number(visit))
    ?.handlers.find(({ name }) => name === handler);
  if (shown !== undefined && (shown.done !== done || shown.failed !== failed || shown.running !== 0))
    wrong.push(`${at} is shown as ${JSON.stringify(shown)}, and has ${done} done, ${failed} failed`);
  return wrong;
}

/** The key that user code gets: the same in all attempts. */
function keyOf(execution: unknown, { phase, visit, handler }: JournalEvent, n: unknown): string {
  return `${String(execution)}/${phase}/${visit}/${handler}/${String(n)}`;
}

function auditNotes(events: readonly JournalEvent[], noted: readonly Noted[]): string[] {
  const wrong: string[] = [];
  const begun = new Set(
    noted.filter(({ what }) => what === "begins").map(({ key, attempt }) => `${key} ${attempt}`),
  );
  const keys = new Set(noted.filter(({ what }) => what === "begins").map(({ key }) => key));
  const journaled = new Map<string, number>();
  for (const event of events) {
    if (event.kind === "workflow.task.step") {
      const at = `${keyOf(event["execution"], event, event["n"])} ${String(event["name"])}`;
      if (journaled.has(at)) wrong.push(`${at} is journaled twice`);
      journaled.set(at, event["attempt"] as number);
    } else if (event.kind === "workflow.tasks.settled") {
      for (const { n, attempt, status } of rowsOf(event)) {
        const key = keyOf(event["execution"], event, n);
        if (status !== "done" || !isNoted(event)) continue;
        if (!keys.has(key)) wrong.push(`${key} is done and was never begun`);
        else if (!begun.has(`${key} ${attempt}`))
          wrong.push(`${key} is done by attempt ${attempt}, never begun`);
      }
    }
  }
  for (const { what, key, name, attempt } of noted) {
    const first = journaled.get(`${key} ${name}`);
    if (what === "step" && first !== undefined && attempt > first)
      wrong.push(`${key}: "${name}" is journaled by attempt ${first} and runs again in attempt ${attempt}`);
  }
  return wrong;
}

/** Whether the code of a handler notes what it does: that of phases with tasks, not of children, sleeps and answers. */
function isNoted({ phase }: JournalEvent): boolean {
  return ["work", "fan", "only", "last"].includes(phase ?? "");
}
