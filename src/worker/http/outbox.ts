/**
 * The unacknowledged events of a worker. Events are numbered per attempt, and repeats have the same numbers. With a spool, the
 * events are on disk before an attempt counts as ended. Either all events of an attempt wait here while its node is searched
 * for, or all of them are being sent to one node.
 */

import type { Report } from "../../protocol/work.ts";
import type { Clock } from "../../std/clock.ts";
import { TransientMap } from "../../std/transient-map.ts";
import { noteRun } from "../run-statuses.ts";
import type { HeldAttempt, HeldAttempts } from "./held-attempts.ts";
import { attemptCount, eachEvent } from "./report-events.ts";
import type { Spool, SpooledEvent } from "./spool.ts";

export interface OutboxOptions {
  readonly clock: Clock;
  readonly held: HeldAttempts;
  readonly spool: Spool | null;
  /** Whether every node at which the worker has registered accepts the structured fields of log lines. */
  readonly takesFields: () => boolean;
  /** Returns the event queue of a node, by the node's name; null if the session at that node has ended. */
  readonly queueOf: (node: string) => { add(entries: readonly Entry[]): void } | null;
  /** Called when an attempt has ended and the worker therefore has a free slot. */
  readonly onEnded: () => void;
  /** Called when the receipt of an attempt is acknowledged. */
  readonly onAcknowledged: (attempt: HeldAttempt) => void;
  /** Called when the nodes of some attempts are not known. */
  readonly onHomeless: () => void;
}

/** A call of `send` that is not finished: the verdicts so far, and the callback that gets them. */
interface Delivery {
  readonly verdicts: string[][];
  open: number;
  readonly resolve: (verdicts: readonly (readonly string[])[]) => void;
}

/** An event, its attempt, and the call of `send` that waits for its verdict. */
export interface Entry extends SpooledEvent {
  readonly held: HeldAttempt;
  readonly delivery: Delivery | null;
  /** The index of the event's report in the call of `send`. `attemptAt` is the index of its attempt in the report. */
  readonly report: number;
  readonly attemptAt: number;
  /** The key of the event in `#open`; 0 until it is added there. */
  key: number;
}

export class Outbox {
  readonly #options: OutboxOptions;
  /** All unacknowledged events, in the order of the calls of `send`. */
  readonly #open = new TransientMap<number, Entry>();
  #added = 0;
  /** The events that wait until the node of their attempt is found. */
  readonly #waiting = new Map<HeldAttempt, Entry[]>();
  /** The number of calls of `send` whose events are being written to the spool. */
  #spooling = 0;
  #chars = 0;
  #isClosed = false;
  #onEmpty: (() => void)[] = [];

  constructor(options: OutboxOptions) {
    this.#options = options;
    if (options.spool !== null) options.spool.unacknowledged = this.#open;
  }

  get chars(): number {
    return this.#chars;
  }

  /** Sends reports; resolves with a list of verdicts for each report when all their events are acknowledged. */
  send(reports: readonly Report[]): Promise<readonly (readonly string[])[]> {
    return new Promise((resolve, fail) => {
      const verdicts = reports.map((report) => new Array<string>(attemptCount(report)).fill("stale"));
      const delivery: Delivery = { verdicts, open: 0, resolve };
      const entries: Entry[] = [];
      reports.forEach((report, i) => this.#read(report, i, delivery, entries));
      delivery.open = entries.length;
      if (entries.length === 0 || this.#isClosed) return resolve(verdicts);
      const { spool } = this.#options;
      if (spool === null) this.#add(entries);
      else {
        this.#spooling++;
        const synced = (): void => {
          this.#spooling--;
          this.#add(entries);
        };
        const failed = (error: unknown): void => {
          this.#spooling--;
          if (this.#isEmpty) this.#emptied();
          fail(error);
        };
        spool.append(entries, synced, failed);
      }
    });
  }

  /** Sends the events that an earlier process left in its spool. `hold` returns the attempt of an event. */
  replay(events: readonly SpooledEvent[], hold: (event: SpooledEvent) => HeldAttempt): void {
    this.#add(
      events.map((event) => ({
        ...event,
        held: hold(event),
        delivery: null,
        report: 0,
        attemptAt: 0,
        key: 0,
      })),
    );
  }

  /**
   * Called when it is known that a node owns an attempt. The waiting events of the attempt are sent there, unless older ones
   * are still being sent.
   */
  found(held: HeldAttempt, node: string): void {
    if (held.queued > 0) return;
    this.#options.held.move(held, node);
    const waiting = this.#waiting.get(held);
    if (waiting === undefined) return;
    this.#waiting.delete(held);
    this.#post(waiting);
  }

  /** Called with events whose node did not own their attempt. They wait until the right node is found. */
  moved(entries: readonly Entry[]): void {
    const byAttempt = new Map<HeldAttempt, Entry[]>();
    for (const entry of entries) {
      entry.held.queued--;
      const others = byAttempt.get(entry.held);
      if (others === undefined) byAttempt.set(entry.held, [entry]);
      else others.push(entry);
    }
    // Events of this attempt that wait already are newer than the moved ones, so the moved ones go before them.
    for (const [held, list] of byAttempt) this.#wait(held, [...list, ...(this.#waiting.get(held) ?? [])]);
  }

  settled(settled: readonly { readonly entry: Entry; readonly verdict: string }[]): void {
    for (const { entry, verdict } of settled) {
      entry.held.queued--;
      this.#settle(entry, verdict);
    }
    this.#options.spool?.acknowledged();
    if (this.#isEmpty) this.#emptied();
  }

  /** Resolves when every event is acknowledged, or the outbox is closed. */
  empty(): Promise<void> {
    if (this.#isEmpty) return Promise.resolve();
    return new Promise((resolve) => this.#onEmpty.push(resolve));
  }

  /**
   * Closes the outbox. Events that are not acknowledged stay in the spool. Without a spool they are lost, and the leases of
   * their attempts expire.
   */
  close(): void {
    this.#isClosed = true;
    this.#options.spool?.close();
    for (const entry of this.#open.values()) this.#deliver(entry, "stale");
    this.#open.clear();
    this.#waiting.clear();
    this.#emptied();
  }

  #read(report: Report, index: number, delivery: Delivery, entries: Entry[]): void {
    let attempts = 0;
    eachEvent(
      report,
      (attempt, rest, isReceipt) => {
        const at = report.kind === "receipts" ? attempts++ : 0;
        const held = this.#options.held.get(attempt);
        if (held === undefined || held.hasEnded) return;
        const n = ++held.n;
        if (report.kind !== "accepted") held.hasStarted = true;
        noteRun(held, report, this.#options.clock);
        const json = `{"attempt":"${attempt}","n":${n},${rest}`;
        const { token } = held;
        entries.push({
          attempt,
          token,
          n,
          json,
          isReceipt,
          held,
          delivery,
          report: index,
          attemptAt: at,
          key: 0,
        });
      },
      this.#options.takesFields(),
    );
  }

  #add(entries: readonly Entry[]): void {
    if (this.#isClosed) {
      for (const entry of entries) this.#deliver(entry, "stale");
      return;
    }
    const { held } = this.#options;
    let hasEnded = false;
    for (const entry of entries) {
      this.#chars += entry.json.length;
      entry.key = ++this.#added;
      this.#open.set(entry.key, entry);
      if (!entry.isReceipt || entry.held.hasEnded) continue;
      held.end(entry.held);
      hasEnded = true;
    }
    if (hasEnded) this.#options.onEnded();
    this.#post(entries);
  }

  /** Sends each event to the node that owns its attempt. */
  #post(entries: readonly Entry[]): void {
    const { queueOf } = this.#options;
    const byNode = new Map<string, Entry[]>();
    for (const entry of entries) {
      const { home } = entry.held;
      const waiting = this.#waiting.get(entry.held);
      if (waiting !== undefined) waiting.push(entry);
      else if (home === null || queueOf(home) === null) this.#wait(entry.held, [entry]);
      else {
        entry.held.queued++;
        const others = byNode.get(home);
        if (others === undefined) byNode.set(home, [entry]);
        else others.push(entry);
      }
    }
    for (const [node, list] of byNode) queueOf(node)?.add(list);
  }

  #wait(held: HeldAttempt, entries: Entry[]): void {
    this.#waiting.set(held, entries);
    this.#options.held.move(held, null);
    this.#options.onHomeless();
  }

  #settle(entry: Entry, verdict: string): void {
    if (!this.#open.delete(entry.key)) return;
    const { held, onAcknowledged } = this.#options;
    this.#chars -= entry.json.length;
    if (entry.isReceipt) {
      held.forget(entry.held);
      onAcknowledged(entry.held);
    } else if (entry.held.left > 0 && --entry.held.left === 0) held.forget(entry.held);
    this.#deliver(entry, verdict);
  }

  #deliver({ delivery, report, attemptAt }: Entry, verdict: string): void {
    if (delivery === null) return;
    (delivery.verdicts[report] as string[])[attemptAt] = verdict;
    if (--delivery.open === 0) delivery.resolve(delivery.verdicts);
  }

  get #isEmpty(): boolean {
    return this.#open.size === 0 && this.#spooling === 0;
  }

  #emptied(): void {
    for (const resolve of this.#onEmpty.splice(0)) resolve();
  }
}
