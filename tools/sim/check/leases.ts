/** The attempts that the present owners have granted, seen from outside: one at a time per task, within every limit. */
import type { RateDefinition } from "../../../src/kernel/definition/definition.ts";
import type { HandlerPlan } from "../../../src/kernel/definition/plan.ts";
import type { Beat, Report } from "../../../src/protocol/work.ts";
import { must } from "../trace.ts";
import type { Model } from "./model.ts";

export interface Given {
  readonly execution: string;
  readonly phase: string;
  readonly visit: number;
  readonly handler: string;
  readonly task: number;
  readonly attempt: number;
  readonly worker: string;
  readonly project: string;
  readonly plan: HandlerPlan;
  readonly key: string | undefined;
  isReported: boolean;
  /** Whether the worker has a status API; false if it has none, or if it has ended. */
  canBeAsked: boolean;
}

/** A grant that is sent a little after its decision counts at the time of the decision. */
const SLACK_MS = 100;

/** The time of a start: in real time, by the machine's clock, and by that clock before the turn. */
type StartTime = { readonly at: number; readonly machine: number; readonly machineBefore: number };

type At = { readonly phase: string; readonly visit: number; readonly handler: string };

export class Leases {
  /** The ids of all attempts that were ever granted, including those of purged executions. */
  readonly ids = new Set<string>();
  readonly #given = new Map<string, Map<string, Given>>();
  /** Attempts about which workers were asked. */
  readonly #asked = new Set<string>();
  /** Granted attempts, of any owner, without a receipt. */
  readonly #unreported = new Set<string>();
  /** Those of the unreported attempts that were granted when or after their start was journaled. */
  readonly #begun = new Set<string>();
  /** Tasks granted by an owner that ended uncleanly: their next start must be journaled first. */
  readonly #touched = new Map<string, Set<string>>();
  /** Starts of handlers and keys with a rate, by scope: in real time and by the machine's clock. */
  readonly #starts = new Map<string, { at: number; machine: number }[]>();

  #opened = { at: 0, machine: 0 };
  /** Until this time clocks jump and nodes stall, so decisions and grants can be far apart. */
  #unsteadyUntil = 0;

  ofExecution(execution: string): Iterable<Given> {
    return this.#given.get(execution)?.values() ?? [];
  }

  find(execution: string, at: At, task: number): Given | undefined {
    return this.#given.get(execution)?.get(keyOf(at, task));
  }

  isTouched(execution: string, at: At, task: number): boolean {
    return this.#touched.get(execution)?.has(keyOf(at, task)) === true;
  }

  /** Records a granted attempt; true: it was granted before, and its end is not known. */
  give(given: Given, isStarted: boolean): boolean {
    const { execution, task, worker } = given;
    const leases = this.#given.get(execution) ?? new Map<string, Given>();
    const key = keyOf(given, task);
    const held = leases.get(key);
    must(held === undefined, `${execution}/${key}: given to ${worker} while ${held?.worker} has it`);
    leases.set(key, given);
    const isAgain = this.#unreported.has(`${execution}/${key}.${given.attempt}`);
    this.#unreported.add(`${execution}/${key}.${given.attempt}`);
    if (isStarted) this.#begun.add(`${execution}/${key}.${given.attempt}`);
    this.#given.set(execution, leases);
    return isAgain;
  }

  /** A task that crashed its process twice must run alone on its worker. */
  checkAlone(given: Given): void {
    for (const other of this.#open())
      must(
        other === given || other.worker !== given.worker,
        `${given.execution}/${keyOf(given, given.task)}: crashed twice, so it runs alone (beside ${other.execution}/${keyOf(other, other.task)})`,
      );
  }

  /** Checks the number of attempts of a handler, and of a project, at the same time. */
  checkLimits({ plan, project, key }: Given, projectMax = Number.POSITIVE_INFINITY): void {
    const { concurrency = Number.POSITIVE_INFINITY } = plan.definition;
    const perKey =
      (key === undefined ? undefined : plan.definition.concurrencyPerKey) ?? Number.POSITIVE_INFINITY;
    let ofHandler = 0;
    let ofKey = 0;
    let ofProject = 0;
    for (const other of this.#open()) {
      if (other.task < 0 || other.project !== project) continue;
      ofProject++;
      if (other.plan.scope !== plan.scope) continue;
      ofHandler++;
      if (other.key === key) ofKey++;
    }
    must(ofHandler <= concurrency, `${plan.scope}: ${ofHandler} attempts run, at most ${concurrency} may`);
    must(ofKey <= perKey, `${plan.scope}: ${ofKey} attempts of ${key} run, at most ${perKey} may`);
    must(ofProject <= projectMax, `project ${project}: ${ofProject} run, at most ${projectMax} may`);
  }

  /** Checks the number of starts of a handler, and of a key, within any period of their rates. */
  checkRates({ plan, project, key }: Given, now: StartTime): void {
    const scope = `${project}/${plan.scope}`;
    const { rate, ratePerKey } = plan.definition;
    if (rate !== undefined) this.#checkRate(scope, rate, now);
    if (ratePerKey !== undefined && key !== undefined) this.#checkRate(`${scope}#${key}`, ratePerKey, now);
  }

  #checkRate(scope: string, { limit, per, spread }: RateDefinition, now: StartTime): void {
    const starts = this.#starts.get(scope) ?? [];
    this.#starts.set(scope, starts);
    starts.push({ at: now.at, machine: Math.min(now.machine, now.machineBefore) });
    this.#checkStarts(scope, { most: spread === true ? limit + 1 : limit, ms: per }, now);
    // A delay of up to a tenth of the time between two starts may be made up for, or one that is within the slack.
    if (spread === true) this.#checkStarts(scope, { most: 1, ms: (0.9 * per) / limit }, now);
  }

  /** Checks that at most `most` starts are within `ms`. */
  #checkStarts(scope: string, { most, ms }: { most: number; ms: number }, now: StartTime): void {
    const first = this.#starts.get(scope)?.at(-1 - most);
    if (first === undefined || first.at <= this.#unsteadyUntil + SLACK_MS) return;
    // A new owner waits by its own clock, whatever that clock did before.
    const isNewOwner = first.at < this.#opened.at;
    const since = isNewOwner ? Math.min(first.machine, this.#opened.machine) : first.machine;
    must(
      now.at - first.at >= ms - SLACK_MS || now.machine - since >= ms - SLACK_MS,
      `${scope}: ${most + 1} starts in ${now.at - first.at} ms, at most ${most} in ${ms} may be`,
    );
  }

  /** Marks the time until which rates cannot be checked. */
  unsteady(until: number): void {
    this.#unsteadyUntil = Math.max(this.#unsteadyUntil, until);
  }

  /** Called when the worker has reported these attempts, so that it is free of them even before the commit. */
  reported(worker: string, reports: readonly Report[]): void {
    for (const report of reports) {
      const tasks =
        report.kind === "receipts"
          ? report.receipts
          : report.kind === "enumeration"
            ? [{ task: -1, attempt: report.attempt }]
            : [];
      for (const { task, attempt } of tasks) {
        this.#unreported.delete(`${report.execution}/${keyOf(report, task)}.${attempt}`);
        this.#begun.delete(`${report.execution}/${keyOf(report, task)}.${attempt}`);
        const lease = this.find(report.execution, report, task);
        if (lease?.worker === worker && lease.attempt === attempt) lease.isReported = true;
      }
    }
  }

  /** Called when the start of an attempt is journaled. */
  started(execution: string, at: At, { task, attempt }: { task: number; attempt: number }): void {
    const key = `${execution}/${keyOf(at, task)}.${attempt}`;
    if (this.find(execution, at, task)?.attempt === attempt && this.#unreported.has(key))
      this.#begun.add(key);
  }

  /** Whether the attempt has begun, by the journal, and its end is not known. */
  isUnreported(execution: string, at: At, { task, attempt }: { task: number; attempt: number }): boolean {
    return this.#begun.has(`${execution}/${keyOf(at, task)}.${attempt}`);
  }

  /** Called when the status API of the worker is asked about these attempts, perhaps before they were sent. */
  asked(beats: readonly Beat[]): void {
    for (const beat of beats)
      for (const { task, attempt } of beat.attempts)
        this.#asked.add(`${beat.execution}/${keyOf(beat, task)}.${attempt}`);
  }

  isAsked({ execution, attempt, ...at }: Given): boolean {
    return this.#asked.has(`${execution}/${keyOf(at, at.task)}.${attempt}`);
  }

  /** Called when the owner withdrew these attempts or asked their workers to stop. */
  released(beats: readonly Beat[]): void {
    for (const lease of this.#named(beats)) this.#drop(lease);
  }

  workerLeft(worker: string): void {
    for (const lease of this.#all()) if (lease.worker === worker) lease.canBeAsked = false;
  }

  /** Removes attempts that have ended by the journal. */
  prune(model: Model): void {
    for (const lease of [...this.ofExecution(model.id)]) {
      const handler = model.handler(lease);
      const isOver =
        handler === undefined ||
        model.visit?.open !== true ||
        handler.finished ||
        handler.isClosed(lease.task) ||
        (handler.ended.get(lease.task) ?? 0) >= lease.attempt ||
        (lease.task < 0 && handler.sealed);
      if (isOver) this.#drop(lease);
    }
  }

  /** Called when the attempts of these tasks have ended with receipts. */
  untouch(execution: string, at: At, tasks: readonly number[] | "all"): void {
    const touched = this.#touched.get(execution);
    if (touched === undefined) return;
    if (tasks !== "all") for (const task of tasks) touched.delete(keyOf(at, task));
    else for (const key of [...touched]) if (key.startsWith(prefixOf(at))) touched.delete(key);
  }

  /** Called when a visit has ended. */
  endVisit(execution: string, at: { phase: string; visit: number }): void {
    for (const lease of [...this.ofExecution(execution)])
      if (lease.phase === at.phase && lease.visit === at.visit) this.#drop(lease);
  }

  /** Called when a new owner begins. */
  opened(now: { at: number; machine: number }): void {
    this.#opened = now;
  }

  /** Called when the owner of these executions ended uncleanly. */
  crashed(isOf: (execution: string) => boolean): void {
    for (const [execution, leases] of [...this.#given]) {
      if (!isOf(execution)) continue;
      this.#given.delete(execution);
      const touched = this.#touched.get(execution) ?? new Set();
      for (const key of leases.keys()) touched.add(key);
      this.#touched.set(execution, touched);
    }
    this.#forgetAsked(isOf);
  }

  /** Attempts at remote workers stay open: the next owner inherits them. */
  closed(isOf: (execution: string) => boolean): void {
    for (const lease of this.#all()) if (isOf(lease.execution)) lease.canBeAsked = false;
    this.#forgetAsked(isOf);
  }

  #forgetAsked(isOf: (execution: string) => boolean): void {
    for (const key of this.#asked) if (isOf(key.slice(0, key.indexOf("/")))) this.#asked.delete(key);
  }

  forget(execution: string): void {
    this.#given.delete(execution);
    this.#touched.delete(execution);
  }

  *#all(): Generator<Given> {
    for (const leases of this.#given.values()) yield* leases.values();
  }

  *#open(): Generator<Given> {
    for (const lease of this.#all()) if (!lease.isReported) yield lease;
  }

  #named(beats: readonly Beat[]): Given[] {
    return beats.flatMap((beat) =>
      beat.attempts.flatMap(({ task, attempt }) => {
        const lease = this.find(beat.execution, beat, task);
        return lease?.attempt === attempt ? [lease] : [];
      }),
    );
  }

  #drop(lease: Given): void {
    this.#given.get(lease.execution)?.delete(keyOf(lease, lease.task));
  }
}

function prefixOf({ phase, visit, handler }: At): string {
  return `${phase}.${visit}/${handler}#`;
}

function keyOf(at: At, task: number): string {
  return `${prefixOf(at)}${task}`;
}
