/**
 * A simulated worker: takes grants, works for a while, reports until it is heard. Its messages are lost, repeated
 * and overtaken; it freezes and thaws; it dies. A local one lives and dies with the node.
 */
import type { Beat, Grant, GrantItem, Report, ReportPlace } from "../protocol/work.ts";
import type { SeededRandom } from "../std/random.ts";
import { outcomeOf, tasksOf } from "./behaviour.ts";
import type { World } from "./world.ts";

interface Doing {
  readonly grant: Grant;
  readonly item: GrantItem;
  isStarted: boolean;
}

const RESEND_MS = 400;

export class SimWorker {
  readonly id: string;
  readonly local: boolean;
  readonly uses: readonly string[];
  readonly capacity: number;
  readonly #world: World;
  readonly #random: SeededRandom;
  readonly doing = new Map<string, Doing>();
  readonly #unheard = new Map<number, readonly Report[]>();
  readonly #onHeard = new Map<number, () => void>();
  isDead = false;
  frozenUntil = 0;
  #reports = 0;

  constructor(
    world: World,
    random: SeededRandom,
    options: { id: string; local: boolean; uses: readonly string[]; capacity: number },
  ) {
    this.#world = world;
    this.#random = random;
    this.id = options.id;
    this.local = options.local;
    this.uses = options.uses;
    this.capacity = options.capacity;
    if (!this.local) this.#loop();
  }

  /** Registers at the node, as after every reconnect. */
  join(): void {
    if (this.isDead) return;
    this.#world.toNode(this, {
      kind: "worker-joined",
      worker: this.id,
      serves: this.uses.map((use) => ({ use })),
      capacity: this.capacity,
      local: this.local,
    });
    this.#claim();
  }

  take(grant: Grant): void {
    if (this.isDead) return;
    for (const item of grant.items) {
      const key = keyOf(grant, item);
      if (this.doing.has(key)) continue;
      this.doing.set(key, { grant, item, isStarted: false });
      const wait =
        this.#random.chance(0.03) && this.#world.has("frozen-workers") ? 40_000 : this.#random.below(30);
      this.#later(wait, () => this.#start(key));
    }
  }

  cancel(beats: readonly Beat[], why: "cancel" | "lost"): void {
    if (this.isDead) return;
    for (const beat of beats) {
      for (const { task, attempt, claim } of beat.attempts) {
        const key = `${placeKey(beat)}/${task}/${attempt}/${claim}/${beat.epoch}`;
        const doing = this.doing.get(key);
        if (doing === undefined) continue;
        // A lost attempt may go on and tell late; a cancelled one stops, mostly.
        if (why === "lost" && this.#random.chance(0.5)) continue;
        this.doing.delete(key);
        if (why === "cancel") this.#receipt(doing, { status: "cancelled", payload: "null" });
      }
    }
  }

  heard(report: number): void {
    if (this.isDead) return;
    this.#unheard.delete(report);
    const next = this.#onHeard.get(report);
    this.#onHeard.delete(report);
    next?.();
    this.#claim();
  }

  die(): void {
    this.isDead = true;
    this.doing.clear();
    this.#unheard.clear();
  }

  #start(key: string): void {
    const doing = this.doing.get(key);
    if (doing === undefined) return;
    doing.isStarted = true;
    const { grant, item } = doing;
    this.#world.noteRun(grant, item);
    if (grant.do === "enumerate") {
      this.#enumerate(doing, key);
      return;
    }
    const outcome = outcomeOf(this.#world.behaviour, grant, item.number, item.attempt);
    if (outcome === "dies") {
      this.#world.processDies(this);
      return;
    }
    if (!this.local || this.#random.chance(0.5)) {
      this.#send([
        {
          kind: "started",
          ...reportPlace(grant),
          attempts: [{ task: item.number, attempt: item.attempt, claim: item.claim }],
        },
      ]);
    }
    this.#later(this.#random.pick([0, 5, 50, 400]), () => {
      if (!this.doing.delete(key)) return;
      this.#world.noteProduced(grant, item.number, outcome);
      this.#receipt(doing, outcome);
    });
  }

  #enumerate(doing: Doing, key: string): void {
    const { grant, item } = doing;
    const { texts, keys, identities } = tasksOf(this.#world.behaviour, grant);
    const byIdentity = this.#world.hasIdentity(grant);
    let from = byIdentity ? 0 : (grant.resume?.count ?? 0);
    const fails =
      !this.#world.behaviour.healed && this.#world.has("failing-tasks") && this.#random.chance(0.1);
    const stopAt = fails ? this.#random.below(texts.length + 1) : texts.length;
    // One page at a time: the next goes out when the one before was heard, so pages keep their order.
    const step = () => {
      if (!this.doing.has(key)) return;
      if (from >= stopAt) {
        this.doing.delete(key);
        const outcome = fails
          ? {
              status: "failed" as const,
              payload: JSON.stringify({ name: "Error", message: "enumeration fails" }),
            }
          : { status: "done" as const, payload: "null", total: texts.length };
        this.#send([
          {
            kind: "enumeration",
            ...reportPlace(grant),
            attempt: item.attempt,
            claim: item.claim,
            ms: 1,
            outcome,
          },
        ]);
        return;
      }
      const to = Math.min(stopAt, from + this.#random.between(1, 4));
      const slice = <T>(values: readonly T[]) => values.slice(from, to);
      const page = {
        kind: "page" as const,
        ...reportPlace(grant),
        attempt: item.attempt,
        claim: item.claim,
        from,
        tasks: slice(texts),
        keys: slice(keys),
        identities: byIdentity ? slice(identities) : null,
      };
      from = to;
      this.#onHeard.set(this.#send([page]), () => this.#later(this.#random.pick([0, 3, 60]), step));
    };
    this.#later(0, step);
  }

  #receipt({ grant, item }: Doing, outcome: Exclude<ReturnType<typeof outcomeOf>, "dies">): void {
    if (grant.do === "enumerate")
      this.#send([
        {
          kind: "enumeration",
          ...reportPlace(grant),
          attempt: item.attempt,
          claim: item.claim,
          ms: 1,
          outcome,
        },
      ]);
    else
      this.#send([
        {
          kind: "receipts",
          ...reportPlace(grant),
          receipts: [{ task: item.number, attempt: item.attempt, claim: item.claim, ms: 1, outcome }],
        },
      ]);
  }

  /** Sends, and sends again until it is heard; order may change on the way. */
  #send(reports: readonly Report[]): number {
    const report = ++this.#reports;
    this.#unheard.set(report, reports);
    this.#transmit(report);
    return report;
  }

  #transmit(report: number): void {
    const reports = this.#unheard.get(report);
    if (reports === undefined || this.isDead) return;
    this.#world.toNode(this, { kind: "worker-reports", worker: this.id, report, reports });
  }

  /** Beats, resends, claims: the remote worker's own clockwork. */
  #loop(): void {
    this.#later(100, () => {
      if (this.isDead) return;
      const beats = new Map<
        string,
        Beat & { attempts: { task: number; attempt: number; claim: number }[] }
      >();
      for (const { grant, item, isStarted } of this.doing.values()) {
        if (!isStarted) continue;
        const key = `${placeKey(grant)}/${grant.epoch}`;
        const beat = beats.get(key) ?? { ...reportPlace(grant), attempts: [] };
        beat.attempts.push({ task: item.number, attempt: item.attempt, claim: item.claim });
        beats.set(key, beat);
      }
      if (beats.size > 0)
        this.#world.toNode(this, { kind: "worker-beats", worker: this.id, beats: [...beats.values()] });
      this.#claim();
      this.#loop();
    });
    this.#later(RESEND_MS, () => {
      for (const report of [...this.#unheard.keys()]) this.#transmit(report);
    });
  }

  #claim(): void {
    if (!this.local)
      this.#world.toNode(this, {
        kind: "worker-claims",
        worker: this.id,
        max: Math.max(0, this.capacity - this.doing.size),
      });
  }

  #later(ms: number, run: () => void): void {
    this.#world.timeline.after(ms, () => {
      if (this.isDead) return;
      const frozen = this.frozenUntil - this.#world.timeline.now;
      if (frozen > 0) this.#later(frozen, run);
      else run();
    });
  }
}

function reportPlace({ execution, phase, visit, handler, round, epoch }: ReportPlace): ReportPlace {
  return { execution, phase, visit, handler, round, epoch };
}

function placeKey({ execution, phase, visit, handler }: ReportPlace): string {
  return `${execution}/${phase}/${visit}/${handler}`;
}

function keyOf(grant: Grant, item: GrantItem): string {
  return `${placeKey(grant)}/${item.number}/${item.attempt}/${item.claim}/${grant.epoch}`;
}
