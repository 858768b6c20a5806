/**
 * Everything that is known outside the engine: durable rows, grants, and results of code. The ledger checks the invariants.
 */

import type { Plan } from "../../../src/kernel/definition/plan.ts";
import type { Event } from "../../../src/kernel/event.ts";
import { Execution } from "../../../src/kernel/execution.ts";
import { decodeEntry, type Entry } from "../../../src/kernel/journal/journal-entry.ts";
import { replay, restore } from "../../../src/kernel/journal/replay.ts";
import { writeSnapshot } from "../../../src/kernel/journal/snapshot.ts";
import type { Verdict } from "../../../src/kernel/message.ts";
import type { Grant, Report } from "../../../src/protocol/work.ts";
import type { MemoryTables } from "../../../src/store/memory/memory-tables.ts";
import {
  type Commit,
  type Fence,
  fenceOf,
  type LoadedExecution,
  type StoreInfo,
} from "../../../src/store/store.ts";
import { must } from "../trace.ts";
import { tasksOf } from "../workload/behaviour.ts";
import { MAPPED, mapPages } from "../workload/program.ts";
import { Effects } from "./effects.ts";
import { Families } from "./families.ts";
import { checkItem, checkName } from "./grant-item.ts";
import { Leases } from "./leases.ts";
import { Model } from "./model.ts";
import { Payments } from "./payments.ts";
import { PostOpCheck } from "./post-op-check.ts";
import { Records } from "./records.ts";
import type { Roster } from "./roster.ts";

/** The most tasks of one grant, unless the handler processes batches. */
export const QUANTUM = 2;

export interface LedgerOptions {
  readonly tables: MemoryTables;
  readonly plans: ReadonlyMap<string, Plan>;
  readonly seed: number;
  /** The limit of attempts at a time, by project. */
  readonly projects: Readonly<Record<string, { readonly concurrency?: number }>>;
  readonly isCluster: boolean;
  /** Called when an event of an execution has become durable. */
  readonly onEvent?: (execution: string, seq: number) => void;
}

/** Real time, the node's clock, the clock of its machine (which may go back), and that clock before its last jump. */
interface Now {
  readonly at: number;
  readonly clock: number;
  readonly machine: number;
  readonly machineBefore: number;
  /** The workers that the node knows. */
  readonly roster: Roster;
}

export class Ledger {
  readonly effects = new Effects();
  readonly leases = new Leases();
  readonly payments = new Payments();
  readonly postOps = new PostOpCheck();
  readonly #records: Records;
  readonly #families: Families;
  readonly #options: LedgerOptions;
  readonly #models = new Map<string, Model>();
  /** The models of purged executions. */
  readonly #purged = new Map<string, Model>();
  readonly #kinds = new Set<string>();
  /** Executions that were written and not read yet. */
  readonly #written = new Set<string>();
  #info: StoreInfo | null = null;

  constructor(options: LedgerOptions) {
    this.#options = options;
    this.#records = new Records(options.tables);
    this.#families = new Families((id) => this.#models.get(id) ?? this.#purged.get(id));
  }

  /** Called with a commit that may be durable soon. */
  written({ writes, mailTaken = [] }: Commit): void {
    for (const { execution, mail: letters } of writes) {
      this.#written.add(execution);
      if (letters !== undefined) this.#families.sent(letters);
    }
    const { tables } = this.#options;
    const isStored = (letter: string) =>
      tables.scanMail({ after: 0, max: 1_000_000, partitions: null }).some(({ id }) => id === letter);
    for (const letter of mailTaken) this.#families.taken(letter, isStored);
  }

  /** Whether an execution may have durable rows that were not read here. */
  isUnread(execution: string): boolean {
    return this.#written.has(execution) || this.wasPurged(execution);
  }

  /** Reads the rows that have become durable since the last call. While a commit can still be lost, there are no new ones. */
  sync(): void {
    const { tables } = this.#options;
    if (tables.unsettled > 0) return;
    for (const id of this.#written) {
      const known = this.#models.get(id);
      const rows = tables.readJournal({ execution: id, from: (known?.seq ?? 0) + 1 });
      const [first] = rows;
      if (first === undefined) continue;
      const model = known ?? this.#modelOf(id, first);
      for (const row of rows) {
        for (const recorded of decodeEntry(row)) {
          if (recorded.seq <= model.seq) continue;
          this.#checkBefore(model, recorded.event);
          model.read(recorded);
          this.#families.read(model, recorded.event);
          this.#checkEvent(model, recorded.event);
          this.#options.onEvent?.(id, recorded.seq);
        }
      }
    }
    this.#written.clear();
    this.#families.settle();
  }

  /** Whether all rows that were written have been read. */
  get isRead(): boolean {
    return this.#written.size === 0;
  }

  durableSeq(execution: string): number {
    return this.model(execution)?.seq ?? 0;
  }

  /** The model of an execution, even if it was purged. */
  model(execution: string): Model | undefined {
    return this.#models.get(execution) ?? this.#purged.get(execution);
  }

  wasPurged(execution: string): boolean {
    return this.#purged.has(execution);
  }

  /** All executions, including children. */
  get models(): Iterable<Model> {
    return this.#models.values();
  }

  status(execution: string): string {
    return this.model(execution)?.status ?? "not started";
  }

  /** Whether these and all other executions have ended. */
  allEnded(executions: Iterable<string>): boolean {
    for (const model of this.#models.values()) if (!model.isOver) return false;
    for (const execution of executions) if (this.model(execution) === undefined) return false;
    return true;
  }

  opened(info: StoreInfo): void {
    const { tables } = this.#options;
    this.#info = info;
    this.sync();
    for (const [id, model] of this.#models) {
      must(
        (tables.load([id])[0] ?? null) !== null,
        `${id}: an execution that was durable exists after a restart`,
      );
      const last = tables.readJournal({ execution: id, from: model.seq }).at(-1);
      must(
        last !== undefined && last.seq + last.count - 1 >= model.seq,
        `${id}: durable events are still there after a restart`,
      );
      this.#records.check(model);
    }
  }

  fence(): Fence {
    return fenceOf(this.#info as StoreInfo);
  }

  crashed(): void {
    for (const model of this.#models.values()) this.leases.prune(model);
    this.leases.crashed(() => true);
  }

  closed(): void {
    this.leases.closed(() => true);
  }

  /** Called when executions have a new owner. */
  partitionTaken(isOf: (execution: string) => boolean, isAfterCrash: boolean): void {
    for (const model of this.#models.values()) if (isOf(model.id)) this.leases.prune(model);
    if (isAfterCrash) this.leases.crashed(isOf);
    else this.leases.closed(isOf);
    for (const model of this.#models.values())
      if (isOf(model.id))
        for (const handler of model.visit?.handlers.values() ?? [])
          if (isAfterCrash) handler.inDoubt = new Map(handler.started);
  }

  /** A load by snapshot must equal a replay of all rows. */
  checkLoad(loaded: LoadedExecution): void {
    const { id, hash } = loaded.head;
    const plan = this.#options.plans.get(hash) as Plan;
    const fast = restore(id, plan, { snapshot: loaded.snapshot?.body ?? null, entries: loaded.entries });
    const rows = this.#options.tables.readJournal({ execution: id, from: 1 });
    const slow = replay(new Execution(id, plan), rows);
    must(fast.seq === slow.seq, `${id}: a snapshot with its rows reaches the journal's end`);
    must(writeSnapshot(fast) === writeSnapshot(slow), `${id}: a snapshot says the same as the journal`);
    const published = JSON.stringify([...slow.published]);
    must(JSON.stringify([...fast.published]) === published, `${id}: a snapshot has the published values`);
    const model = this.#models.get(id);
    if (model?.seq === slow.seq)
      must(JSON.stringify([...model.published]) === published, `${id}: publishes what its journal says`);
  }

  /** A grant must be based on durable state. */
  checkGrant(worker: string, grant: Grant, now: Now): void {
    this.sync();
    const model = this.#models.get(grant.execution);
    const at = `${grant.execution}/${grant.phase}.${grant.visit}/${grant.handler}`;
    for (const other of this.#models.values()) this.leases.prune(other);
    must(model !== undefined && !model.ended, `${at}: work is given out only for a durable, open execution`);
    must(model.status === "running", `${at}: nothing is given out while ${model.status}`);
    const handler = model.handler(grant);
    must(
      handler !== undefined && model.visit?.open === true,
      `${at}: work is given out only in the open phase`,
    );
    const { plan } = handler;
    const batch = Math.max(QUANTUM, plan.definition.batch ?? 1);
    must(grant.items.length <= batch, `${at}: ${grant.items.length} tasks are given out at a time`);
    const { isCluster } = this.#options;
    now.roster.checkGrant(worker, grant, { handler, at: now.at, isCluster });
    if (grant.do === "command") this.postOps.sent(model, grant);
    const canBeAsked = now.roster.canBeAsked(worker);
    const { execution, phase, visit, handler: name } = grant;
    const { project } = model;
    for (const item of grant.items) {
      const { number: task, attempt } = item;
      checkName(this.leases.ids, grant, item);
      const place = { execution, phase, visit, handler: name, task, attempt };
      const key = handler.keys[task];
      const given = { ...place, worker, project, plan, key, isReported: false, canBeAsked };
      // The task was due when it was first granted, though a clock may have gone back since.
      const clock = this.leases.give(given, handler.started.get(task) === attempt)
        ? Number.POSITIVE_INFINITY
        : now.clock;
      if (task < 0) continue;
      checkItem(`${at}#${task}`, { item, handler, clock });
      if (this.leases.isTouched(execution, grant, task))
        must(
          handler.started.get(task) === attempt,
          `${at}#${task}: after an unclean stop its start is journaled before it is given out`,
        );
      must(
        handler.inDoubt.get(task) !== attempt,
        `${at}#${task}: attempt ${attempt}, which a former owner recorded, is given out again before it is lost`,
      );
      // Each node knows only its own attempts at a worker.
      if (!isCluster && (handler.crashes.get(task) ?? 0) >= 2) this.leases.checkAlone(given);
      this.leases.checkRates(given, now);
      this.leases.checkLimits(given, this.#options.projects[project]?.concurrency);
    }
  }

  progressed(execution: string, seq: number): void {
    this.sync();
    const model = this.model(execution);
    must((model?.seq ?? 0) >= seq, `${execution}: observers hear of durable events only`);
    if (model !== undefined) this.leases.prune(model);
  }

  /** Called when a worker gets the verdicts of its reports. */
  judged(reports: readonly Report[], verdicts: readonly (readonly Verdict[])[]): void {
    this.sync();
    reports.forEach((report, i) => {
      const verdict = verdicts[i]?.[0];
      if (verdict !== "accepted") return;
      if (report.kind === "logs") this.#records.accepted(report, report.lines);
      if (report.kind !== "step" && report.kind !== "run") return;
      const handler = this.#models.get(report.execution)?.handler(report);
      const isThere =
        handler === undefined ||
        handler.settled.has(report.task) ||
        handler.checkpoints(report.task).some(({ name }) => name === report.name);
      must(isThere, `${report.execution}: ${report.kind} ${report.name} is acknowledged once it is durable`);
    });
  }

  /** Checks executions for the last time before they are purged. */
  beforePurge(ids: readonly string[]): void {
    this.sync();
    for (const id of ids) {
      const model = this.#models.get(id);
      if (model !== undefined) this.#records.checkEnd(model);
      if (model !== undefined) this.payments.check(model);
    }
  }

  /** Called when these executions were purged. */
  purged(ids: readonly string[]): void {
    for (const id of ids) {
      const model = this.#models.get(id);
      if (model === undefined || this.#options.tables.load([id])[0] !== null) continue;
      must(model.ended, `${id}: only what has ended is purged`);
      must(
        model.chain.newest?.isOpen !== true,
        `${id}: is purged while ${model.chain.newest?.execution} is open`,
      );
      this.#models.delete(id);
      this.#purged.set(id, model);
      this.leases.forget(id);
      this.effects.forget(id);
      this.payments.forget(id);
      this.postOps.forget(id);
      this.#records.forget(id);
    }
  }

  /** At the end of a run: everything acknowledged happened once, and every result was produced by code. */
  checkEnd(acknowledged: ReadonlyMap<string, { execution: string; kind: string; seq: number }>): void {
    this.sync();
    for (const [id, { execution, kind, seq }] of acknowledged) {
      if (this.wasPurged(execution)) continue;
      const model = this.#models.get(execution);
      must(model !== undefined && model.seq >= seq, `${execution}: ${kind} was acknowledged and is there`);
      if (kind !== "start")
        must(
          model.ids.get(id) === seq,
          `${execution}: ${kind} ${id} was acknowledged at ${seq} and is journaled there`,
        );
    }
    for (const model of this.#models.values()) {
      this.#records.checkEnd(model);
      this.payments.check(model);
      this.#families.checkEnd(model);
    }
    const messages = this.#options.tables.scanMail({ after: 0, max: 1, partitions: null });
    must(messages.length === 0, `no mail is left: ${JSON.stringify(messages)}`);
  }

  summary(): string {
    return [...this.#models.values()].map((model) => `${model.id}:${model.status}@${model.seq}`).join(" ");
  }

  /** The kinds of all events in this run. */
  get kinds(): ReadonlySet<string> {
    return this.#kinds;
  }

  #modelOf(id: string, first: Entry): Model {
    const [created] = decodeEntry(first);
    const hash = created?.event.kind === "created" ? created.event.hash : "";
    const plan = this.#options.plans.get(hash);
    must(plan !== undefined, `${id}: its journal begins with its creation`);
    const model = new Model(id, plan, this.#options.seed);
    this.#models.set(id, model);
    return model;
  }

  /** Checks an event against the outside, before the model reads it. */
  #checkBefore(model: Model, event: Event): void {
    this.#kinds.add(event.kind);
    if (event.kind !== "tasks.lost") return;
    for (const task of event.tasks) {
      const lease = this.leases.find(model.id, event, task);
      must(
        lease === undefined || !lease.canBeAsked || this.leases.isAsked(lease),
        `${model.id}: ${event.phase}/${event.handler}#${task} is lost, its worker was not asked`,
      );
    }
  }

  /** Checks an event against the outside, after the model has read it. */
  #checkEvent(model: Model, event: Event): void {
    const { id } = model;
    this.postOps.read(model, event, this.effects);
    if (event.kind === "command.receipted") this.leases.untouch(id, event, [event.task]);
    switch (event.kind) {
      case "tasks.enumerated":
        return isMapped(model) ? this.#checkItems(model, event) : undefined;
      case "handler.enumerated":
        return this.#checkSealed(model, event);
      case "handler.finished":
        return this.leases.untouch(id, event, "all");
      case "tasks.started":
        return event.tasks.forEach((task, i) =>
          this.leases.started(id, event, { task, attempt: event.attempts[i] as number }),
        );
      case "tasks.waiting":
      case "tasks.retrying":
        return this.leases.untouch(id, event, event.tasks);
      case "task.waiting":
        return this.leases.untouch(id, event, [event.task]);
      case "retried":
      case "tasks.retried":
        return this.effects.freshBudgets(id);
      case "tasks.settled":
        this.leases.untouch(id, event, event.tasks);
        return this.#checkProduced(model, event);
      case "phase.finished": {
        if (event.status === "done" || model.isSettledEnd) return;
        for (const lease of this.leases.ofExecution(id))
          if (lease.phase === event.phase && lease.visit === event.visit)
            must(
              lease.isReported,
              `${id}: ${event.phase} ended ${event.status} while ${lease.handler}#${lease.task} was open`,
            );
        for (const [name, handler] of model.visit?.handlers ?? [])
          for (const [task, attempt] of handler.started)
            must(
              !this.leases.isUnreported(id, { ...event, handler: name }, { task, attempt }),
              `${id}: ${event.phase} ended ${event.status}, but what became of ${name}#${task} attempt ${attempt}?`,
            );
        return this.leases.endVisit(id, event);
      }
      default:
        return;
    }
  }

  /** The items of the map that has started an execution. */
  #itemsOf({ parent }: Model): readonly string[] {
    if (parent?.name === undefined) return [];
    return mapPages(this.#options.seed, { ...parent, name: parent.name }).flat();
  }

  /** The tasks of a child of a map are the items, in their order. */
  #checkItems(model: Model, event: Extract<Event, { kind: "tasks.enumerated" }>): void {
    const items = this.#itemsOf(model);
    event.tasks.forEach((text, i) => {
      const index = event.from + i;
      must(text === items[index], `${model.id}: task ${index} is item ${index} of the map: ${items[index]}`);
    });
  }

  #checkSealed(model: Model, event: Extract<Event, { kind: "handler.enumerated" }>): void {
    const { id, plan } = model;
    const handler = plan.byName.get(event.phase)?.handlers.find(({ name }) => name === event.handler);
    if (handler === undefined || handler.definition.tasks !== undefined) return;
    const { texts } = isMapped(model)
      ? { texts: this.#itemsOf(model) }
      : tasksOf(this.#options.seed, { execution: id, ...event }, handler);
    if (handler.adds) {
      // With identities, a task that the enumeration gives may have been added before.
      const enumerated = model.handler(event)?.growth.enumerated ?? 0;
      const isRight =
        handler.definition.identity === undefined ? enumerated === texts.length : enumerated <= texts.length;
      must(
        isRight,
        `${id}: ${event.phase}/${event.handler} enumerated ${enumerated} of ${texts.length} tasks`,
      );
      return;
    }
    const total = handler.definition.enumerate === undefined ? 1 : texts.length;
    must(
      event.total === total,
      `${id}: ${event.phase}/${event.handler} was sealed with ${event.total} tasks, by its definition it has ${total}`,
    );
  }

  /** A counted result was produced by code. */
  #checkProduced({ id, plan }: Model, event: Extract<Event, { kind: "tasks.settled" }>): void {
    const handler = plan.byName.get(event.phase)?.handlers.find(({ name }) => name === event.handler);
    // Results of commands were checked with their receipts.
    if (handler?.waits === true || ["workflow", "command"].includes(handler?.mode ?? "")) return;
    event.tasks.forEach((task, i) => {
      if (event.statuses[i] !== "done") return;
      const at = { execution: id, ...event };
      must(
        this.effects.wasProduced(at, task, event.payloads[i] as string),
        `${id}: ${event.phase}/${event.handler}#${task}: a counted result was produced by code`,
      );
    });
  }
}

/** Whether an execution runs the items of a map. */
function isMapped({ plan }: Model): boolean {
  return plan.definition.name === MAPPED;
}
