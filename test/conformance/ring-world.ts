/**
 * A small world for ring nodes under one seed: a store with leases, partitions, letters and timers, a network that delays,
 * loses, repeats and cuts, nodes that are killed, paused, restarted and that leave. Owners are modelled as far as the ring
 * needs them: they read letters and fire timers, except for those timers that they "forget" until they are told.
 */

import type { RingInput, RingOutput } from "../../src/cluster/ring/io.ts";
import { RingMap } from "../../src/cluster/ring/ring-map.ts";
import { RingNode } from "../../src/cluster/ring/ring-node.ts";
import type { Token } from "../../src/cluster/ring/token.ts";
import { Heap } from "../../src/std/heap.ts";
import { SeededRandom } from "../../src/std/random.ts";
import { partitionOf } from "../../src/store/partition-of.ts";
import type { StoredTimer } from "../../src/store/store.ts";
import { RingLeases } from "./ring-leases.ts";

const RENEW_MS = 3_000;
const FIRST_NOW = 1_000_000;

/** What can go wrong, as chances for each message. */
export interface Weather {
  readonly loss: number;
  readonly replyLoss: number;
  readonly twice: number;
  readonly slow: number;
}

const FAIR: Weather = { loss: 0, replyLoss: 0, twice: 0, slow: 0 };
const FOUL: Weather = { loss: 0.05, replyLoss: 0.05, twice: 0.05, slow: 0.05 };

/** A node's process, alive. */
interface Process {
  readonly url: string;
  readonly incarnation: string;
  readonly ring: RingNode;
  readonly skew: number;
  owned: Set<number>;
  pausedUntil: number;
  wakeAt: number;
  isGone: boolean;
  joinedAt: number;
  advances: number;
}

interface Row extends StoredTimer {
  readonly partition: number;
  readonly setAt: number;
  /** Its owner does not fire it unless it is told. */
  readonly isForgotten: boolean;
}

/** A token on its way, for those who judge. */
export interface Posted {
  readonly at: number;
  readonly from: string;
  readonly to: string;
  readonly token: Token;
}

export class RingWorld {
  readonly random: SeededRandom;
  readonly partitions = 16;
  now = FIRST_NOW;
  weather = FAIR;
  readonly processes = new Map<string, Process>();
  readonly posted: Posted[] = [];
  readonly letters = new Map<number, { partition: number; at: number; by: string }>();
  readonly rows = new Map<string, Row>();
  readonly complaints: string[] = [];
  /** Timers that were fired because a watcher told the owner, and letters found because of the ring. */
  told = 0;
  hinted = 0;
  stateAsks = 0;
  readonly #events = new Heap<{ at: number; order: number; run: () => void }>(
    (a, b) => a.at < b.at || (a.at === b.at && a.order < b.order),
  );
  #order = 0;
  #lives = 0;
  #things = 0;
  /** Directed links that carry nothing: "from>to". */
  readonly #cuts = new Set<string>();
  readonly #leases = new RingLeases(this.partitions, FIRST_NOW);

  constructor(seed: number) {
    this.random = new SeededRandom(seed);
  }

  get urls(): string[] {
    return [...this.processes.keys()];
  }

  start(url: string): void {
    const incarnation = `i${++this.#lives}`;
    const skew = this.random.between(-200, 200);
    const process: Process = {
      url,
      incarnation,
      ring: new RingNode(url, this.now + skew),
      skew,
      owned: new Set(),
      pausedUntil: 0,
      wakeAt: Number.POSITIVE_INFINITY,
      isGone: false,
      joinedAt: this.now,
      advances: 0,
    };
    this.processes.set(url, process);
    this.#renew(process);
  }

  kill(url: string): void {
    const process = this.processes.get(url);
    if (process === undefined) return;
    process.isGone = true;
    this.processes.delete(url);
    // Its hints are gone with it: these letters are found by the owner's own readings, which are not the ring's.
    for (const [id, { by }] of this.letters) if (by === process.incarnation) this.letters.delete(id);
  }

  leave(url: string): void {
    const process = this.processes.get(url);
    if (process === undefined) return;
    this.#input(process, { kind: "leaving" });
    this.after(20, () => {
      if (process.isGone) return;
      this.#leases.leave(process.incarnation);
      this.kill(url);
    });
  }

  pause(url: string, ms: number): void {
    const process = this.processes.get(url);
    if (process !== undefined) process.pausedUntil = this.now + ms;
  }

  cut(from: string, to: string, ms: number): void {
    const link = `${from}>${to}`;
    this.#cuts.add(link);
    this.after(ms, () => this.#cuts.delete(link));
  }

  heal(): void {
    this.weather = FAIR;
    this.#cuts.clear();
    for (const process of this.processes.values())
      process.pausedUntil = Math.min(process.pausedUntil, this.now);
  }

  foul(): void {
    this.weather = FOUL;
  }

  /** A node puts a letter into the inbox of a partition, and says so. */
  letter(url: string, partition: number): void {
    const process = this.processes.get(url);
    if (process === undefined || process.pausedUntil > this.now) return;
    this.letters.set(++this.#things, { partition, at: this.now, by: process.incarnation });
    this.#input(process, { kind: "hint", partition, count: 1 });
  }

  /** The owner of some execution sets a timer. */
  timer(url: string, ms: number, isForgotten: boolean): void {
    const process = this.processes.get(url);
    if (process === undefined || process.pausedUntil > this.now) return;
    const own = [...process.owned].filter((one) => this.#isOwner(process, one));
    if (own.length === 0) return;
    let execution = "";
    do execution = `e${++this.#things}`;
    while (!own.includes(partitionOf(execution, this.partitions)));
    const partition = partitionOf(execution, this.partitions);
    const row: Row = { execution, timer: "t", due: this.now + ms, partition, isForgotten, setAt: this.now };
    this.rows.set(execution, row);
    this.#input(process, { kind: "timers-set", timers: [{ execution, timer: "t", due: row.due }] });
    if (!isForgotten) this.#fireAt(process, row);
  }

  /** Runs everything up to then. */
  run(until: number): void {
    for (let next = this.#events.peek(); next !== undefined && next.at <= until; next = this.#events.peek()) {
      this.#events.pop();
      this.now = Math.max(this.now, next.at);
      next.run();
    }
    this.now = until;
  }

  after(ms: number, run: () => void): void {
    this.#events.push({ at: this.now + ms, order: this.#order++, run });
  }

  #isOwner(process: Process, partition: number): boolean {
    return this.#leases.isOwner(process.incarnation, partition) && process.owned.has(partition);
  }

  /** Runs when the process runs: a paused one does it later, a dead one never. */
  #inside(process: Process, run: () => void): void {
    if (process.isGone) return;
    if (process.pausedUntil > this.now)
      return this.after(process.pausedUntil - this.now, () => this.#inside(process, run));
    run();
  }

  #input(process: Process, input: RingInput): void {
    this.#inside(process, () => {
      process.ring.input(input, this.now + process.skew);
      this.#advance(process);
    });
  }

  #advance(process: Process): void {
    process.advances++;
    const now = this.now + process.skew;
    for (const output of process.ring.advance(now)) this.#perform(process, output);
    const wakeAt = process.ring.nextWakeAt();
    process.wakeAt = wakeAt;
    if (wakeAt === Number.POSITIVE_INFINITY) return;
    this.after(Math.max(1, wakeAt - now), () =>
      this.#inside(process, () => {
        if (process.wakeAt === wakeAt) this.#advance(process);
      }),
    );
  }

  #perform(process: Process, output: RingOutput): void {
    switch (output.kind) {
      case "post-token":
        return this.#post(process, output);
      case "ask-state":
        this.stateAsks++;
        return this.#call(process, output.to, {
          there: (peer) => peer.ring.state(),
          answer: (state) => this.#input(process, { kind: "state", ask: output.ask, state }),
        });
      case "read-members":
        return this.after(this.random.between(1, 10), () =>
          this.#inside(process, () => this.#readMembers(process)),
        );
      case "scan-mailbox":
        return this.after(this.random.between(1, 5), () =>
          this.#inside(process, () => {
            this.hinted += this.#readMail(process, output.partitions);
          }),
        );
      case "scan-timers":
        return this.#scanTimers(process, output);
      case "timer-due":
        return this.#timersDue(process, output);
    }
  }

  #post(process: Process, { to, token, post }: Extract<RingOutput, { kind: "post-token" }>): void {
    this.posted.push({ at: this.now, from: process.url, to, token });
    this.#call(process, to, {
      there: (peer) => {
        this.#input(peer, { kind: "token", from: process.url, token });
        return true;
      },
      answer: (isTaken) =>
        this.#input(
          process,
          isTaken === null ? { kind: "token-failed", post } : { kind: "token-posted", post },
        ),
    });
  }

  /** A request and its answer, with all that can happen to them; null: no answer. */
  #call<T>(
    process: Process,
    to: string,
    { there, answer }: { there: (peer: Process) => T; answer: (value: T | null) => void },
  ): void {
    const { random, weather } = this;
    const delay = () => (random.chance(weather.slow) ? random.between(20, 3_000) : random.between(1, 8));
    const peer = this.processes.get(to);
    if (peer === undefined) return this.after(random.between(1, 3), () => answer(null));
    const isCut = (a: string, b: string) => this.#cuts.has(`${a}>${b}`);
    const deliver = () => {
      this.#inside(peer, () => {
        const value = there(peer);
        if (isCut(to, process.url) || random.chance(weather.replyLoss)) return;
        this.after(delay(), () => answer(value));
      });
    };
    if (isCut(process.url, to) || random.chance(weather.loss)) {
      // Sometimes the driver gives up, sometimes nothing is ever heard.
      if (random.chance(0.5)) this.after(random.between(300, 2_000), () => answer(null));
      return;
    }
    this.after(delay(), deliver);
    if (random.chance(weather.twice)) this.after(delay(), deliver);
  }

  #scanTimers(
    process: Process,
    { partitions, until, max }: Extract<RingOutput, { kind: "scan-timers" }>,
  ): void {
    if (this.random.chance(this.weather.loss))
      return this.after(500, () => this.#input(process, { kind: "timers-scanned", timers: null }));
    this.after(this.random.between(1, 5), () => {
      const timers = [...this.rows.values()]
        .filter(({ partition, due }) => due <= until && partitions.includes(partition))
        .toSorted((a, b) => a.due - b.due)
        .slice(0, max)
        .map(({ execution, timer, due }) => ({ execution, timer, due }));
      this.after(this.random.between(1, 5), () => this.#input(process, { kind: "timers-scanned", timers }));
    });
  }

  #timersDue(process: Process, { to, timers }: Extract<RingOutput, { kind: "timer-due" }>): void {
    for (const { execution, due } of timers)
      if (this.now < due) this.complaints.push(`${execution} was told ${due - this.now} ms early`);
    if (to === null) return;
    const there = (peer: Process) =>
      timers.filter(({ execution }) => {
        const row = this.rows.get(execution);
        if (row !== undefined && this.#isOwner(peer, row.partition)) {
          this.told++;
          this.#fire(peer, row);
        }
        return !this.rows.has(execution);
      });
    const answer = (over: readonly StoredTimer[] | null) =>
      this.#input(process, { kind: "timers-over", timers: over ?? [] });
    if (to === process.url) answer(there(process));
    else this.#call(process, to, { there, answer });
  }

  #fireAt(process: Process, row: Row): void {
    this.after(Math.max(0, row.due - this.now), () =>
      this.#inside(process, () => {
        if (this.rows.has(row.execution) && this.#isOwner(process, row.partition)) this.#fire(process, row);
      }),
    );
  }

  #fire(process: Process, { execution, timer, due }: Row): void {
    this.rows.delete(execution);
    this.#input(process, { kind: "timers-ended", timers: [{ execution, timer, due }] });
  }

  #readMail(process: Process, partitions: readonly number[]): number {
    let found = 0;
    for (const [id, { partition }] of this.letters)
      if (partitions.includes(partition) && this.#isOwner(process, partition)) {
        this.letters.delete(id);
        found++;
      }
    return found;
  }

  #readMembers(process: Process): void {
    const membership = this.#leases.membership(process.incarnation, this.now);
    this.after(this.random.between(1, 5), () => this.#input(process, { kind: "members", membership }));
  }

  /** Every few seconds: the lease, then what ownership would do. */
  #renew(process: Process): void {
    this.#inside(process, () => {
      const { owned, taken } = this.#leases.renew(process, this.now);
      process.owned = owned;
      this.#readMembers(process);
      this.#input(process, { kind: "owned", partitions: [...process.owned] });
      if (taken.length > 0) {
        this.#readMail(process, taken);
        for (const row of this.rows.values())
          if (taken.includes(row.partition) && !row.isForgotten) this.#fireAt(process, row);
      }
      this.after(RENEW_MS + this.random.between(-50, 50), () => this.#renew(process));
    });
  }

  /** The map that all should have by now. */
  trueHash(): string {
    const [any] = this.processes.values();
    return any === undefined ? "" : RingMap.of(this.#leases.membership(any.incarnation, this.now)).hash;
  }
}
