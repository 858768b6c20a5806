/**
 * A simulated worker: gets grants, works for a while, and reports until it is answered. Its messages are lost, repeated and
 * reordered; it freezes and thaws; it leaves or dies. A local worker lives and dies with its node.
 */
import type { Verdict } from "../../../src/kernel/message.ts";
import type { Beat, Grant, Report, Serves } from "../../../src/protocol/work.ts";
import type { SeededRandom } from "../../../src/std/random.ts";
import type { World } from "../world.ts";
import { keyOf, placeOf } from "./place.ts";
import { type AttemptHost, SimAttempt } from "./sim-attempt.ts";
import { SimSessions } from "./sim-sessions.ts";

interface PendingReport {
  readonly reports: readonly Report[];
  readonly onVerdicts: (verdicts: readonly (readonly Verdict[])[]) => void;
  sentAt: number;
}

export interface SimWorkerOptions {
  readonly id: string;
  readonly local: boolean;
  /** The node of its process, if it is local. */
  readonly at: string;
  readonly serves: readonly Serves[];
  readonly capacity: number;
  /** Whether it has a status API. */
  readonly asks: boolean;
}

const RESEND_MS = 300;
const BEAT_MS = 100;
const CLAIM_MS = 450;

export class SimWorker implements AttemptHost {
  readonly id: string;
  readonly local: boolean;
  readonly at: string;
  serves: readonly Serves[];
  readonly asks: boolean;
  readonly world: World;
  readonly random: SeededRandom;
  readonly #capacity: number;
  readonly #sessions: SimSessions | null;
  readonly #doing = new Map<string, SimAttempt>();
  readonly #pending = new Map<number, PendingReport>();
  /** The newest claim of each attempt. */
  readonly #claims = new Map<string, { epoch: number; claim: number; key: string }>();
  isDead = false;
  isLeaving = false;
  frozenUntil = 0;
  #reports = 0;
  #claimed = { max: -1, at: 0 };

  constructor(world: World, random: SeededRandom, options: SimWorkerOptions) {
    this.world = world;
    this.random = random;
    this.id = options.id;
    this.local = options.local;
    this.at = options.at;
    this.serves = options.serves;
    this.asks = options.asks;
    this.#capacity = options.capacity;
    const { id: worker, serves, asks } = this;
    this.#sessions =
      this.local || !world.isCluster || !findsNodes(world.behaviour.seed)
        ? null
        : new SimSessions({
            ...{ world, random: random.child("sessions") },
            registration: { worker, serves, asks, capacity: options.capacity },
            later: (ms, run) => this.later(ms, run),
            onReady: () => this.#claim(true),
          });
    if (!this.local) this.#loop();
  }

  /** Whether it is in a cluster, and in touch with no node. */
  get isAway(): boolean {
    return this.#sessions?.isAway ?? false;
  }

  /** Registers at the node, as after every reconnect. In a cluster, its sessions do that. */
  join(): void {
    if (this.isDead || this.isLeaving || this.#sessions !== null) return;
    this.world.toNode(this, {
      kind: "worker-joined",
      worker: this.id,
      serves: this.serves,
      capacity: this.#capacity,
      local: this.local,
      asks: this.asks,
    });
    this.#claim();
  }

  /** Starts work that was granted at this time. */
  startGrant(grant: Grant, since: number): void {
    if (this.isDead) return;
    for (const item of grant.items) {
      const attempt = new SimAttempt(this, grant, { item, since });
      if (this.#doing.has(attempt.key) || this.#isOvertaken(attempt)) continue;
      this.#doing.set(attempt.key, attempt);
      if (this.isLeaving) {
        attempt.handBack();
        continue;
      }
      const isStuck = this.random.chance(0.03) && this.world.has("frozen-workers");
      this.later(isStuck ? 40_000 : this.random.below(30), () => attempt.start());
    }
  }

  cancel(beats: readonly Beat[], why: "cancel" | "lost"): void {
    if (this.isDead) return;
    for (const attempt of this.#named(beats)) {
      // A lost attempt may go on and report late; a cancelled one usually stops.
      if (why === "lost" && this.random.chance(0.5)) continue;
      if (why === "cancel" && this.random.chance(0.2)) continue;
      if (why === "cancel" || this.random.chance(0.5)) attempt.handBack();
      else {
        attempt.isOver = true;
        this.#doing.delete(attempt.key);
      }
    }
  }

  /** Answers its status API: which of these attempts run; null: no answer. */
  vouch(beats: readonly Beat[]): readonly Beat[] | null {
    if (this.isDead || this.frozenUntil > this.world.timeline.now) return null;
    const running = beats
      .map((beat) => ({
        ...placeOf(beat),
        attempts: beat.attempts.filter(
          (at) => this.#doing.get(keyOf({ ...beat, ...at }))?.isStarted === true,
        ),
      }))
      .filter(({ attempts }) => attempts.length > 0);
    return running.length === 0 ? null : running;
  }

  onVerdicts(report: number, verdicts: readonly (readonly Verdict[])[]): void {
    // Another node owns the attempt: the report is repeated, and then reaches that node.
    if (this.isDead || (!this.local && verdicts.some((one) => one.includes("elsewhere")))) return;
    const pending = this.#pending.get(report);
    this.#pending.delete(report);
    pending?.onVerdicts(verdicts);
    this.#claim();
    this.#maybeLeave();
  }

  /** Stops gracefully: returns work that has not begun, finishes the rest, and deregisters. */
  leave(): void {
    this.isLeaving = true;
    this.#claim();
    for (const attempt of [...this.#doing.values()]) if (!attempt.isStarted) attempt.handBack();
    this.#maybeLeave();
  }

  die(): void {
    this.isDead = true;
    for (const attempt of this.#doing.values()) attempt.isOver = true;
    this.#doing.clear();
    this.#pending.clear();
  }

  /** Sends, and repeats until there is an answer. Messages may be reordered on the way. */
  send(reports: readonly Report[], onVerdicts: PendingReport["onVerdicts"]): void {
    const report = ++this.#reports;
    this.#pending.set(report, { reports, onVerdicts, sentAt: 0 });
    this.#transmit(report);
  }

  later(ms: number, run: () => void): void {
    this.world.timeline.after(ms, () => {
      if (this.isDead) return;
      const frozen = this.frozenUntil - this.world.timeline.now;
      if (frozen > 0) this.later(frozen, run);
      else run();
    });
  }

  ended(attempt: SimAttempt): void {
    this.#doing.delete(attempt.key);
    this.#maybeLeave();
  }

  dies(): void {
    this.world.processDies(this);
  }

  /** Of several claims of one attempt only the newest counts, in whatever order they come. */
  #isOvertaken({ grant, item, key }: SimAttempt): boolean {
    const { execution, phase, visit, handler, round, epoch } = grant;
    const name = `${execution}/${phase}/${visit}/${handler}/${round}/${item.number}/${item.attempt}`;
    const known = this.#claims.get(name);
    if (known !== undefined && (known.epoch > epoch || (known.epoch === epoch && known.claim > item.claim)))
      return true;
    const older = known === undefined ? undefined : this.#doing.get(known.key);
    if (older !== undefined) older.isOver = true;
    if (older !== undefined) this.#doing.delete(older.key);
    this.#claims.set(name, { epoch, claim: item.claim, key });
    return false;
  }

  #named(beats: readonly Beat[]): SimAttempt[] {
    return beats.flatMap((beat) =>
      beat.attempts.flatMap((at) => this.#doing.get(keyOf({ ...beat, ...at })) ?? []),
    );
  }

  #maybeLeave(): void {
    if (!this.isLeaving || this.isDead || this.#doing.size > 0 || this.#pending.size > 0) return;
    this.world.workers.left(this);
  }

  #transmit(report: number): void {
    const pending = this.#pending.get(report);
    if (pending === undefined || this.isDead) return;
    pending.sentAt = this.world.timeline.now;
    this.world.toNode(this, { kind: "worker-reports", worker: this.id, report, reports: pending.reports });
  }

  /** The loop of a remote worker: heartbeats, repeated reports and claims. */
  #loop(): void {
    this.later(BEAT_MS, () => {
      const beats = new Map<string, { beat: Beat; attempts: Beat["attempts"][number][] }>();
      for (const { grant, item, isStarted } of this.#doing.values()) {
        if (!isStarted) continue;
        const { execution, phase, visit, handler, round, epoch } = grant;
        const key = `${execution}/${phase}/${visit}/${handler}/${round}/${epoch}`;
        const known = beats.get(key);
        const attempts = known?.attempts ?? [];
        if (known === undefined) beats.set(key, { beat: { ...placeOf(grant), attempts }, attempts });
        attempts.push({ task: item.number, attempt: item.attempt, claim: item.claim });
      }
      if (beats.size > 0)
        this.world.toNode(this, {
          kind: "worker-beats",
          worker: this.id,
          beats: Array.from(beats.values(), ({ beat }) => beat),
        });
      const before = this.world.timeline.now - RESEND_MS;
      for (const [report, { sentAt }] of [...this.#pending]) if (sentAt <= before) this.#transmit(report);
      this.#claim();
      this.#loop();
    });
  }

  /** Claims with the present room, and repeats the claim now and then. */
  #claim(isNew = false): void {
    if (this.local) return;
    const max = this.isLeaving ? 0 : Math.max(0, this.#capacity - this.#doing.size);
    if (this.world.isCluster) {
      const { now } = this.world.timeline;
      if (!isNew && max === this.#claimed.max && now - this.#claimed.at < CLAIM_MS) return;
      this.#claimed = { max, at: now };
    }
    if (this.#sessions !== null) return this.#sessions.claim(max);
    this.world.toNode(this, { kind: "worker-claims", worker: this.id, max });
  }
}

/** In a third of the clusters, workers find the nodes by their sessions. In the others they reach all nodes at once. */
function findsNodes(seed: number): boolean {
  return seed % 3 === 1;
}
