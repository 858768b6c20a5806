/** What the outside knows: durable rows, grants, results that code produced. The invariants are checked here. */

import type { Event } from "../kernel/event.ts";
import { Execution } from "../kernel/execution.ts";
import { decodeEntry } from "../kernel/journal-entry.ts";
import type { Outcome } from "../kernel/message.ts";
import type { Plan } from "../kernel/plan.ts";
import { replay, restore } from "../kernel/replay.ts";
import { writeSnapshot } from "../kernel/snapshot.ts";
import type { Beat, Grant, Report } from "../protocol/work.ts";
import type { MemoryTables } from "../store/memory/memory-tables.ts";
import type { Fence, LoadedExecution, StoreInfo } from "../store/store.ts";
import { type Behaviour, tasksOf } from "./behaviour.ts";
import { Model } from "./model.ts";
import { must } from "./trace.ts";

export class Ledger {
  readonly #tables: MemoryTables;
  readonly #models = new Map<string, Model>();
  readonly #plans = new Map<string, Plan>();
  readonly #produced = new Map<string, Set<string>>();
  /** Attempts given out by the owner of now, by task. */
  #given = new Map<string, { worker: string; attempt: number; isReported: boolean }>();
  /** Tasks given out by an owner that ended uncleanly: their next start must be journaled first. */
  readonly #touched = new Set<string>();
  #info: StoreInfo | null = null;

  readonly #behaviour: Behaviour;

  constructor(tables: MemoryTables, behaviour: Behaviour) {
    this.#tables = tables;
    this.#behaviour = behaviour;
  }

  expect(execution: string, plan: Plan): void {
    this.#plans.set(execution, plan);
  }

  /** Reads what has become durable since the last time. While a commit can still be lost, nothing new has. */
  sync(): void {
    if (this.#tables.unsettled > 0) return;
    for (const [id, plan] of this.#plans) {
      const model = this.#models.get(id) ?? new Model(id, plan);
      const rows = this.#tables.readJournal({ execution: id, from: model.seq + 1 });
      if (rows.length > 0) this.#models.set(id, model);
      for (const row of rows) {
        for (const recorded of decodeEntry(row)) {
          if (recorded.seq <= model.seq) continue;
          model.read(recorded);
          const { event } = recorded;
          this.#checkEvent(id, event);
          if (event.kind === "handler.finished")
            for (const key of [...this.#touched])
              if (key.startsWith(`${id}/${event.phase}.${event.visit}/${event.handler}#`))
                this.#touched.delete(key);
          if (event.kind === "tasks.settled" || event.kind === "tasks.retrying")
            for (const task of event.tasks)
              this.#touched.delete(`${id}/${event.phase}.${event.visit}/${event.handler}#${task}`);
        }
      }
    }
  }

  durableSeq(execution: string): number {
    return this.#models.get(execution)?.seq ?? 0;
  }

  status(execution: string): string {
    return this.#models.get(execution)?.status ?? "not started";
  }

  hasEnded(execution: string): boolean {
    return this.#models.get(execution)?.ended ?? false;
  }

  allEnded(executions: Iterable<string>): boolean {
    for (const execution of executions) if (!this.hasEnded(execution)) return false;
    return true;
  }

  /** Signals that open waits of an execution wait for. */
  waits(execution: string): string[] {
    const model = this.#models.get(execution);
    if (model?.visit?.open !== true) return [];
    const handlers = this.#plans.get(execution)?.byName.get(model.visit.phase)?.handlers ?? [];
    return handlers
      .filter(({ name, mode }) => mode === "waitFor" && model.visit?.handlers.get(name)?.settled.size === 0)
      .map(({ definition }) => definition.waitFor as string);
  }

  opened(info: StoreInfo): void {
    this.#info = info;
    this.sync();
    for (const [id, model] of this.#models) {
      must(
        (this.#tables.load([id])[0] ?? null) !== null,
        `${id}: an execution that was durable exists after a restart`,
      );
      must(this.#lastSeq(id) >= model.seq, `${id}: durable events are still there after a restart`);
    }
  }

  fence(): Fence {
    return (this.#info as StoreInfo).fence;
  }

  crashed(): void {
    for (const key of this.#given.keys()) this.#touched.add(key);
    this.#given = new Map();
  }

  closed(): void {
    this.#given = new Map();
  }

  /** What a load gives is the same by snapshot and by replay of all rows. */
  checkLoad(loaded: LoadedExecution): void {
    const { id } = loaded.head;
    const plan = this.#plans.get(id) as Plan;
    const fast = restore(id, plan, { snapshot: loaded.snapshot?.body ?? null, entries: loaded.entries });
    const slow = replay(new Execution(id, plan), this.#tables.readJournal({ execution: id, from: 1 }));
    must(fast.seq === slow.seq, `${id}: a snapshot with its rows reaches the journal's end`);
    must(writeSnapshot(fast) === writeSnapshot(slow), `${id}: a snapshot says the same as the journal`);
  }

  /** A grant stands on durable, committed state. */
  checkGrant(worker: string, grant: Grant, clock: number): void {
    this.sync();
    const model = this.#models.get(grant.execution);
    const at = `${grant.execution}/${grant.phase}.${grant.visit}/${grant.handler}`;
    for (const id of this.#models.keys()) this.#prune(id);
    must(model !== undefined && !model.ended, `${at}: work is given out only for a durable, open execution`);
    must(model.status === "running", `${at}: nothing is given out while ${model.status}`);
    const handler = model.handler(grant);
    must(
      handler !== undefined && model.visit?.open === true,
      `${at}: work is given out only in the open phase`,
    );
    for (const { number, attempt } of grant.items) {
      const key = `${at}#${number}`;
      const held = this.#given.get(key);
      must(held === undefined, `${key}: given to ${worker} while ${held?.worker} has it`);
      this.#given.set(key, { worker, attempt, isReported: false });
      if (number < 0) continue;
      must(number < Math.max(1, handler.total), `${key}: a task is given out after it is durable`);
      must(!handler.settled.has(number), `${key}: a settled task is not given out`);
      must(
        attempt === (handler.ended.get(number) ?? 0) + 1,
        `${key}: attempt ${attempt} follows ${handler.ended.get(number) ?? 0}`,
      );
      must(clock >= (handler.until.get(number) ?? 0), `${key}: is not tried again before its time`);
      if (this.#touched.has(key))
        must(
          handler.started.get(number) === attempt,
          `${key}: after an unclean stop its start is journaled before it is given out`,
        );
      if ((handler.crashes.get(number) ?? 0) >= 2) {
        const others = [...this.#given].filter(
          ([other, lease]) => other !== key && lease.worker === worker && !lease.isReported,
        );
        must(others.length === 0, `${key}: crashed twice, so it runs alone (beside ${others[0]?.[0]})`);
      }
    }
    this.#checkLimit(grant);
  }

  /** The worker has its hands free of what it reported, whether or not that is committed yet. */
  heard(worker: string, reports: readonly Report[]): void {
    for (const report of reports) {
      const tasks =
        report.kind === "receipts"
          ? report.receipts
          : report.kind === "enumeration"
            ? [{ task: -1, attempt: report.attempt }]
            : [];
      for (const { task, attempt } of tasks) {
        const lease = this.#given.get(
          `${report.execution}/${report.phase}.${report.visit}/${report.handler}#${task}`,
        );
        if (lease?.worker === worker && lease.attempt === attempt) lease.isReported = true;
      }
    }
  }

  /** The owner took attempts back or told their workers to stop. */
  released(beats: readonly Beat[]): void {
    for (const beat of beats)
      for (const { task } of beat.attempts)
        this.#given.delete(`${beat.execution}/${beat.phase}.${beat.visit}/${beat.handler}#${task}`);
  }

  /** After a commit. */
  progressed(execution: string, seq: number): void {
    this.sync();
    must(this.durableSeq(execution) >= seq, `${execution}: observers hear of durable events only`);
    this.#prune(execution);
  }

  /** The worker was heard: an enumeration attempt that ended without an event of its own is over. */
  produced(grant: Grant, task: number, outcome: Outcome): void {
    if (outcome.status !== "done") return;
    const key = `${grant.execution}/${grant.phase}.${grant.visit}/${grant.handler}#${task}`;
    const payloads = this.#produced.get(key) ?? new Set();
    payloads.add(outcome.payload);
    this.#produced.set(key, payloads);
  }

  /** When all is over: everything acknowledged happened once, every result was produced by code. */
  checkEnd(acknowledged: ReadonlyMap<string, { execution: string; kind: string; seq: number }>): void {
    this.sync();
    for (const [id, { execution, kind, seq }] of acknowledged) {
      const model = this.#models.get(execution);
      must(model !== undefined && model.seq >= seq, `${execution}: ${kind} was acknowledged and is there`);
      if (kind !== "start")
        must(
          model.ids.get(id) === seq,
          `${execution}: ${kind} ${id} was acknowledged at ${seq} and is journaled there`,
        );
    }
    for (const id of this.#models.keys()) {
      for (const row of this.#tables.readJournal({ execution: id, from: 1 })) {
        for (const { event } of decodeEntry(row)) {
          if (event.kind !== "tasks.settled") continue;
          event.tasks.forEach((task, i) => {
            if (event.statuses[i] !== "done" || event.workers[i] === "engine") return;
            const key = `${id}/${event.phase}.${event.visit}/${event.handler}#${task}`;
            must(
              this.#produced.get(key)?.has(event.payloads[i] as string) === true,
              `${key}: a counted result was produced by code`,
            );
          });
        }
      }
    }
  }

  summary(): string {
    return [...this.#models.values()].map((model) => `${model.id}:${model.status}@${model.seq}`).join(" ");
  }

  /** Every kind of event seen in this run. */
  kinds(): Set<string> {
    const kinds = new Set<string>();
    for (const model of this.#models.values()) for (const kind of model.kinds) kinds.add(kind);
    return kinds;
  }

  /** Attempts that the journal ended are not held any more. */
  #prune(execution: string): void {
    const model = this.#models.get(execution);
    if (model === undefined) return;
    for (const [key, { attempt }] of [...this.#given]) {
      if (!key.startsWith(`${execution}/`)) continue;
      const [, phase = "", rest = ""] = key.split("/");
      const [name = "", visit = "0"] = phase.split(".");
      const [handlerName = "", task = "0"] = rest.split("#");
      const handler = model.handler({ phase: name, visit: Number(visit), handler: handlerName });
      const isOver =
        handler === undefined ||
        model.visit?.open !== true ||
        handler.finished ||
        handler.settled.has(Number(task)) ||
        (handler.ended.get(Number(task)) ?? 0) >= attempt ||
        (Number(task) < 0 && handler.sealed);
      if (isOver) this.#given.delete(key);
    }
  }

  /** What the journal says against what the outside knows. */
  #checkEvent(id: string, event: Event): void {
    if (event.kind === "handler.enumerated") {
      const plan = this.#plans
        .get(id)
        ?.byName.get(event.phase)
        ?.handlers.find(({ name }) => name === event.handler);
      if (plan === undefined || plan.enumerateUse === null) return;
      const { texts } = tasksOf(this.#behaviour, { execution: id, ...event });
      must(
        event.total === texts.length,
        `${id}: ${event.phase}/${event.handler} was sealed with ${event.total} tasks, ${texts.length} were enumerated`,
      );
    } else if (event.kind === "phase.finished") {
      if (event.status === "done") return;
      const open = [...this.#given].filter(
        ([key, lease]) => key.startsWith(`${id}/${event.phase}.${event.visit}/`) && !lease.isReported,
      );
      must(open.length === 0, `${id}: ${event.phase} ended ${event.status} while ${open[0]?.[0]} was open`);
      for (const key of [...this.#given.keys()])
        if (key.startsWith(`${id}/${event.phase}.${event.visit}/`)) this.#given.delete(key);
    }
  }

  #checkLimit(grant: Grant): void {
    const plan = this.#plans
      .get(grant.execution)
      ?.byName.get(grant.phase)
      ?.handlers.find(({ name }) => name === grant.handler);
    const limit = plan?.definition.concurrency;
    if (limit === undefined || grant.do === "enumerate") return;
    let held = 0;
    for (const [key, lease] of this.#given) {
      if (lease.isReported) continue;
      const [execution = "", phase = "", rest = ""] = key.split("/");
      const [handlerName = "", task = "0"] = rest.split("#");
      if (Number(task) < 0 || this.#plans.get(execution)?.hash !== this.#plans.get(grant.execution)?.hash)
        continue;
      if (this.#models.get(execution)?.project !== grant.project) continue;
      if (phase.split(".")[0] === grant.phase && handlerName === grant.handler) held++;
    }
    must(held <= limit, `${grant.use}: ${held} attempts run, at most ${limit} may`);
  }

  #lastSeq(id: string): number {
    const last = this.#tables.readJournal({ execution: id, from: 1 }).at(-1);
    return last === undefined ? 0 : last.seq + last.count - 1;
  }
}
