/**
 * A model of the clean-up of one execution: which visits must be compensated, in which order, and which phases follow. It is
 * derived from the journal alone, by rules of its own.
 */
import { COMPENSATION } from "../../../src/kernel/definition/definition.ts";
import type { Plan } from "../../../src/kernel/definition/plan.ts";
import type { Place } from "../../../src/kernel/event.ts";
import { ENGINE } from "../../../src/kernel/timers.ts";
import { must } from "../trace.ts";
import type { HandlerModel } from "./handler-model.ts";
import type { VisitModel } from "./model.ts";

/** The reason of a cancel with force. */
export const FORCED = "force";

interface End {
  readonly status: string;
  readonly output: string | null;
  readonly error: unknown;
}

export class CleanupModel {
  readonly #id: string;
  #plan: Plan;
  /** How the execution ends, from the event `ending` on. */
  ending: (End & { readonly seq: number }) | null = null;
  /** The status with which the execution ended last; null if it has never ended. */
  endedAs: string | null = null;
  /** Whether a user or the time limit ended the clean-up early. */
  isCutShort = false;
  /** Visits of the work in the order of their ends. */
  #worked: VisitModel[] = [];
  /** Visits of the clean-up, by phase and visit. */
  readonly #cleaned = new Map<string, VisitModel>();

  constructor(id: string, plan: Plan) {
    this.#id = id;
    this.#plan = plan;
  }

  /** Called when the execution was moved to another definition. */
  moved(plan: Plan): void {
    this.#plan = plan;
  }

  /** Called when a visit has ended. */
  ended(visit: VisitModel): void {
    if (this.ending !== null) {
      const isFailed = [...visit.handlers.values()].some((handler) => handler.hasFailed);
      const expected = isFailed ? ["failed", "cancelled"] : ["done", "cancelled"];
      must(expected.includes(visit.status), `${this.#id}: ${visit.phase} of the clean-up is ${visit.status}`);
      this.#cleaned.set(`${visit.phase}/${visit.visit}`, visit);
      return;
    }
    this.#worked = [...this.#worked.filter((other) => other !== visit), visit];
  }

  begin({ status, output, error }: End, at: { readonly seq: number; readonly hasBegun: boolean }): void {
    must(this.ending === null, `${this.#id}: its clean-up begins once`);
    must(at.hasBegun, `${this.#id}: cleans up, though none of its phases has begun`);
    this.ending = { status, output, error, seq: at.seq };
  }

  /** Called when the execution is cancelled. In a clean-up, and by force while the work drains, the rest is left out. */
  cancelled({ by, reason, isDraining }: { by: string; reason: string | null; isDraining: boolean }): void {
    if (this.ending === null) {
      // Nothing of the clean-up has begun, and nothing will.
      if (isDraining && reason === FORCED) this.isCutShort = true;
      return;
    }
    const isAllowed = reason === FORCED || (by === ENGINE && reason === "cleanupTimeout");
    must(isAllowed, `${this.#id}: its clean-up is ended by ${by} without force (${reason})`);
    this.isCutShort = true;
  }

  /** Called when a visit of the clean-up starts; returns the visit that starts again, or null for a new one. */
  enter(at: { readonly phase: string; readonly visit: number }, round: number): VisitModel | null {
    const expected = this.#next(this.ending?.status ?? "", round);
    must(!this.isCutShort, `${this.#id}: ${at.phase} starts in a clean-up that a forced cancel left out`);
    must(
      expected === `${at.phase}/${at.visit}`,
      `${this.#id}: ${at.phase}/${at.visit} starts in the clean-up where ${expected} is next`,
    );
    return this.#cleaned.get(expected) ?? null;
  }

  finish(end: End, at: { readonly round: number; readonly hasBegun: boolean }): void {
    this.endedAs = end.status;
    if (this.isCutShort || !at.hasBegun) return;
    const left = this.#next(end.status, at.round);
    must(left === null, `${this.#id}: finishes as ${end.status} and leaves out ${left}`);
    if (this.ending === null) return;
    const { status, output, error } = this.ending;
    const isSame =
      JSON.stringify([status, output, error]) === JSON.stringify([end.status, end.output, end.error]);
    must(isSame, `${this.#id}: finishes as its clean-up began`);
  }

  /** The handler that a handler compensates; null if it is an ordinary handler. */
  compensated({ phase, visit, handler }: Place): HandlerModel | null {
    if (!phase.endsWith(COMPENSATION)) return null;
    const of = phase.slice(0, -COMPENSATION.length);
    const origin = this.#worked.find((one) => one.phase === of && one.visit === visit)?.handlers.get(handler);
    must(origin !== undefined, `${this.#id}: ${phase}/${visit} compensates a visit that was`);
    return origin;
  }

  /** The status of the compensation of a task; undefined if there is none. */
  outcomeOf({ phase, visit, handler }: Place, task: number): string | undefined {
    return this.#cleaned.get(`${phase}${COMPENSATION}/${visit}`)?.handlers.get(handler)?.settled.get(task)
      ?.status;
  }

  /** The next visit of the clean-up; null if there is none in this round. */
  #next(status: string, round: number): string | null {
    const visits: string[] = [];
    if (status !== "done")
      for (const { phase, visit, handlers } of [...this.#worked].reverse())
        if ([...handlers.values()].some((handler) => handler.plan.isCompensated && handler.begun.size > 0))
          visits.push(`${phase}${COMPENSATION}/${visit}`);
    const { onCancel, onFailure, finally: last } = this.#plan.definition;
    const after = status === "cancelled" ? onCancel : status === "failed" ? onFailure : undefined;
    for (const phase of [after, last]) if (phase !== undefined) visits.push(`${phase}/1`);
    const isLeft = (key: string): boolean => {
      const known = this.#cleaned.get(key);
      return known === undefined || (known.status !== "done" && known.round < round);
    };
    return visits.find(isLeft) ?? null;
  }
}
