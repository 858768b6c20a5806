/**
 * An engine node as a deterministic object: inputs in, outputs out, no promises, no clock, no I/O.
 *
 * 1. Inputs (requests, reports, loads, timers) become messages in the queues of their executions.
 * 2. If no commit is under way, clean executions with messages are stepped and written in one commit.
 * 3. The verdict makes them clean again: then answers and grants go out, timers are set, observers are told.
 * 4. Workers with room get work from clean executions, fairly.
 */

import { decodeEntry, type Entry } from "../kernel/journal-entry.ts";
import type { Plan } from "../kernel/plan.ts";
import type { Serves } from "../protocol/work.ts";
import { assert, unreachable } from "../std/assert.ts";
import type { StoreInfo } from "../store/store.ts";
import { CleanUp } from "./clean-up.ts";
import { endHold, grantAll } from "./granting.ts";
import type { Input, Output } from "./io.ts";
import { NodeState } from "./node-state.ts";
import { beat, noteArrival } from "./reporting.ts";
import { Residency } from "./residency.ts";
import { DEFAULT_SETTINGS, type Settings } from "./settings.ts";
import type { ReportAnswer, Slot } from "./slot.ts";
import { type Stepped, stepSlot } from "./stepping.ts";
import { sweepLeases } from "./sweep.ts";
import { TimerDesk, WAKE } from "./timer-desk.ts";
import { RosterEntry } from "./worker-roster.ts";

/** Messages of one execution that are stepped before others have their turn. */
const SLICE_MESSAGES = 256;
/** Fewer executions than this are not split over two commits. */
const SHARE_MIN = 16;

export class EngineNode {
  readonly #node: NodeState;
  readonly #residency: Residency;
  readonly #timers: TimerDesk;
  readonly #cleanUp: CleanUp;
  /** Commits without a verdict yet, by number: what was stepped for each. */
  readonly #underWay = new Map<number, readonly Stepped[]>();
  #commits = 0;
  #nextSweepAt = 0;

  constructor(info: StoreInfo, now: number, settings: Partial<Settings> = {}) {
    this.#node = new NodeState({ ...DEFAULT_SETTINGS, ...settings }, info.fence, info.uncleanEpoch);
    this.#node.now = now;
    this.#node.openedAt = now;
    this.#timers = new TimerDesk(this.#node.settings);
    this.#node.wakeAt = (slot, at) => this.#timers.set(slot.id, WAKE, at);
    this.#residency = new Residency(this.#node, (slot) => this.#cleanUp.becameClean(slot));
    this.#cleanUp = new CleanUp(this.#node, this.#residency, this.#timers);
  }

  /** Makes a plan known, and its limits count. */
  addPlan(plan: Plan, project: string): void {
    this.#node.plans.set(plan.hash, plan);
    this.#node.declareLimits(plan, project);
  }

  /** Takes an input. Nothing comes out before `advance`. */
  input(input: Input, now: number): void {
    const node = this.#node;
    node.now = Math.max(node.now, now);
    switch (input.kind) {
      case "request":
        return this.#request(input);
      case "inspect": {
        const slot = this.#residency.slot(input.execution);
        slot.inspections.push(input.request);
        if (slot.status === "clean") this.#cleanUp.inspect(slot);
        return;
      }
      case "committed":
        return this.#committed(input);
      case "commit-failed":
        return this.#commitFailed(input.commit);
      case "loaded":
        for (const { id, loaded } of input.loads) this.#residency.loaded(id, loaded);
        return;
      case "definition":
        return this.#residency.definition(input.hash, input.plan);
      case "page-read":
        return this.#pageRead(input.execution, input.seq, input.entry);
      case "work-scanned":
        return this.#residency.scanned(input.heads, input.each);
      case "timers-scanned":
        return this.#timers.scanned(input.timers, input.until, { max: input.max, now: node.now });
      case "worker-joined":
        return this.#workerJoined(input);
      case "worker-claims": {
        const worker = node.roster.workers.get(input.worker);
        if (worker !== undefined) worker.wanted = input.max;
        return;
      }
      case "worker-reports":
        return this.#reports(input);
      case "worker-beats":
        return this.#beats(input);
      case "worker-left":
        return this.#workerLeft(input.worker);
      case "closing":
        node.closing = true;
        return;
      case "tick":
        return;
      default:
        return unreachable(input);
    }
  }

  /** Does what can be done now; gives out what is to be performed. */
  advance(now: number): Output[] {
    const node = this.#node;
    node.now = Math.max(node.now, now);
    this.#clockDuty();
    this.#flush();
    grantAll(node);
    // Careful starts and marks queued by granting are written without waiting for the next input.
    this.#flush();
    this.#residency.ask();
    const { outputs } = node;
    node.outputs = [];
    return outputs;
  }

  /** When `advance` is needed again if nothing comes in; Infinity: never. */
  nextWakeAt(): number {
    const { limits, roster } = this.#node;
    return Math.min(this.#timers.nextAt(), this.#nextSweepAt, limits.nextUnblockAt(), roster.nextHoldEnd());
  }

  /** Open leases whose receipts have not come: what a graceful end waits for. */
  get openLeases(): number {
    let open = 0;
    for (const slot of this.#node.slots.values()) open += slot.openLeases;
    return open;
  }

  /** True while a commit is under way or messages wait for one. */
  get isBusy(): boolean {
    return this.#underWay.size > 0 || this.#node.runnable.length > 0;
  }

  get residentCount(): number {
    return this.#node.slots.size;
  }

  #request(input: Extract<Input, { kind: "request" }>): void {
    const node = this.#node;
    const { message, request, plan } = input;
    if (plan !== undefined && message.kind === "start") this.addPlan(plan, message.project);
    const isFresh = input.fresh === true && !node.slots.has(input.execution);
    const slot = isFresh ? this.#residency.freshSlot(input.execution) : this.#residency.slot(input.execution);
    node.enqueue(slot, { kind: "message", message, request, ...(plan === undefined ? {} : { plan }) });
  }

  #reports(input: Extract<Input, { kind: "worker-reports" }>): void {
    const answer: ReportAnswer = {
      worker: input.worker,
      report: input.report,
      verdicts: [],
      open: input.reports.length,
    };
    input.reports.forEach((report, index) => {
      const slot = this.#residency.slot(report.execution);
      noteArrival(this.#node, slot, report);
      this.#node.enqueue(slot, { kind: "report", report, worker: input.worker, answer, index });
    });
  }

  #beats(input: Extract<Input, { kind: "worker-beats" }>): void {
    for (const one of input.beats) {
      const slot = this.#residency.slot(one.execution);
      if (slot.status === "loading") slot.beats.push({ beat: one, worker: input.worker });
      else beat(this.#node, slot, one, input.worker);
    }
  }

  #workerJoined(input: {
    worker: string;
    serves: readonly Serves[];
    capacity: number;
    local: boolean;
  }): void {
    const node = this.#node;
    const entry = new RosterEntry(input.worker, input.local, input.serves, input.capacity);
    for (const slot of node.slots.values()) {
      for (const desk of slot.desks)
        for (const lease of desk.leases.values())
          if (lease.worker === input.worker && !lease.reported) entry.held++;
    }
    this.#workerLeft(input.worker);
    node.roster.join(entry);
    this.#residency.rescan();
  }

  #workerLeft(id: string): void {
    const worker = this.#node.roster.workers.get(id);
    if (worker !== undefined) endHold(this.#node, worker);
    this.#node.roster.leave(id);
  }

  #pageRead(execution: string, seq: number, entry: Entry | null): void {
    const node = this.#node;
    const slot = node.slots.get(execution);
    const desk = slot?.desks.find((candidate) => candidate.fetching === seq);
    if (slot === undefined || desk === undefined) return;
    desk.fetching = -1;
    assert(entry !== null, "a journaled page is in the store");
    for (const { event, seq: at } of decodeEntry(entry)) {
      if (event.kind === "tasks.enumerated") node.pages.put(execution, at, event, true);
    }
    node.offerAll(slot);
  }

  /** Timers whose time has come, retries, silent attempts, scans. */
  #clockDuty(): void {
    const node = this.#node;
    const scan = this.#timers.wantedScan(node.now);
    if (scan !== null) node.emit({ kind: "scan-timers", ...scan });
    // Bounded by the loads under way only: whatever else is in memory, time goes on.
    while (this.#residency.loading < node.settings.windowMax) {
      const due = this.#timers.takeDue(node.now);
      if (due === null) break;
      const slot = this.#residency.slot(due.execution);
      if (due.timer.startsWith("~")) {
        if (due.timer === WAKE) slot.wakeAt = 0;
        else this.#timers.clear(due.execution, due.timer);
        if (slot.status === "clean") this.#cleanUp.becameClean(slot);
      } else
        node.enqueue(slot, { kind: "message", message: { kind: "timer", timer: due.timer }, request: null });
    }
    if (
      node.now >= this.#nextSweepAt ||
      (this.#nextSweepAt === Number.POSITIVE_INFINITY && node.roster.hasRemote)
    ) {
      const lapsed = sweepLeases(node);
      for (const slot of lapsed ?? []) if (slot.status === "clean") this.#cleanUp.becameClean(slot);
      const isWatching = lapsed !== null || node.roster.hasRemote;
      this.#nextSweepAt = isWatching ? node.now + node.settings.sweepMs : Number.POSITIVE_INFINITY;
    }
    node.limits.unblock(node.now);
  }

  /** Steps what waits and asks for commits of it, as many as may be under way. */
  #flush(): void {
    const { runnable, settings } = this.#node;
    while (this.#underWay.size < settings.commitsMax && runnable.length > 0) this.#flushOne();
  }

  /** Steps a share of what waits: the rest goes into the next commit, which is stepped while this one is written. */
  #flushOne(): void {
    const node = this.#node;
    const { commitsMax, commitMessagesMax, commitCharsMax } = node.settings;
    const share = Math.ceil(node.runnable.length / (commitsMax - this.#underWay.size));
    const writesMax = Math.min(node.settings.commitWritesMax, Math.max(share, SHARE_MIN));
    const stepped: Stepped[] = [];
    const idle: Stepped[] = [];
    let messages = 0;
    let chars = 0;
    let taken = 0;
    for (; taken < node.runnable.length; taken++) {
      if (stepped.length >= writesMax || messages >= commitMessagesMax || chars >= commitCharsMax) break;
      const slot = node.runnable[taken] as Slot;
      slot.isRunnable = false;
      if (slot.status !== "clean" || slot.queue.length === 0) continue;
      const result = stepSlot(node, slot, Math.min(SLICE_MESSAGES, commitMessagesMax - messages));
      messages += result.messages;
      chars += result.chars;
      if (result.write === null) idle.push(result);
      else {
        slot.status = "dirty";
        stepped.push(result);
      }
    }
    node.runnable.splice(0, taken);
    if (stepped.length > 0) {
      this.#underWay.set(++this.#commits, stepped);
      const writes = stepped.map(({ write }) => {
        assert(write !== null, "a stepped slot has a write");
        return write;
      });
      node.emit({ kind: "commit", commit: this.#commits, content: { fence: node.fence, writes } });
    }
    for (const result of idle) this.#cleanUp.finish(result);
  }

  #committed(input: Extract<Input, { kind: "committed" }>): void {
    const underWay = this.#underWay.get(input.commit);
    if (underWay === undefined) return;
    if (input.verdict.kind === "fenced") {
      this.#node.closing = true;
      this.#node.emit({ kind: "fenced", why: input.verdict.why });
      return;
    }
    this.#underWay.delete(input.commit);
    const exists = new Set(input.verdict.exists);
    for (const stepped of underWay) {
      if (exists.has(stepped.slot.id)) this.#cleanUp.again(stepped);
      else {
        stepped.slot.status = "clean";
        this.#cleanUp.finish(stepped);
      }
    }
  }

  /** Nothing written, or nobody knows: drop what was in memory, reload, step the same messages again. */
  #commitFailed(commit: number): void {
    const underWay = this.#underWay.get(commit);
    if (underWay === undefined) return;
    this.#underWay.delete(commit);
    for (const stepped of underWay) this.#cleanUp.again(stepped);
  }
}
