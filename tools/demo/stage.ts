/**
 * What the demo is about just now, for the terminal and for the page; and what can be done to it from either. Harm that
 * comes while nothing runs begins another round, so that there is something to be harmed.
 */
import { type AuditWatch, executionsOf, type Found, verdictOf } from "./audit-watch.ts";
import type { BadNetwork, Doubled } from "./harm/bad-network.ts";
import type { WorkerCrew, WorkerShown } from "./harm/worker-crew.ts";
import type { Received, Receiver } from "./receiver.ts";

export type Step = "opening" | "fan-out" | "commands" | "script" | "proof" | "done";

/** What can be done to the demo. */
export const DEEDS = ["kill", "freeze", "duplicate", "again"] as const;
export type Deed = (typeof DEEDS)[number];

/** One run of all parts of the demo. */
export interface Round {
  readonly id: string;
  readonly tasks: number;
  readonly commands: string;
  readonly script: string;
}

/** The demo as the page gets it. */
export interface StageShown {
  readonly step: Step;
  readonly round: Round | null;
  readonly project: string;
  readonly workers: readonly WorkerShown[];
  readonly killed: number;
  readonly frozen: number;
  readonly doubled: Doubled;
  readonly audit: Found | null;
  readonly received: readonly Received[];
  readonly news: readonly { readonly at: number; readonly text: string }[];
  /** Whether another round can begin: false if the demo ends by itself. */
  readonly isStaying: boolean;
}

interface StageParts {
  readonly network: BadNetwork;
  readonly receiver: Receiver;
  readonly audits: AuditWatch;
  readonly project: string;
  readonly isStaying: boolean;
  /** Told what happens, in a sentence. */
  readonly onNews: (text: string) => void;
}

const NEWS_MAX = 30;
const LOOK_MS = 50;
/** So long it is waited for something to be harmed. */
const PATIENCE_MS = 10_000;

export class Stage {
  readonly #parts: StageParts;
  step: Step = "opening";
  round: Round | null = null;
  crew: WorkerCrew | null = null;
  /** Whether tasks are being done. */
  isAtWork: () => boolean = () => false;
  killed = 0;
  frozen = 0;
  readonly #news: { at: number; text: string }[] = [];
  #onBegin: () => void = () => {};
  #onAgain: () => void = () => {};
  /** Whether the auditor looks just now because of a harm, and whether another came meanwhile. */
  #audit: "none" | "looks" | "looks, and once more" = "none";

  constructor(parts: StageParts) {
    this.#parts = parts;
  }

  /** Another round: what was done to the one before is forgotten. */
  begins(round: Round): void {
    this.round = round;
    this.killed = 0;
    this.frozen = 0;
    this.#parts.network.countAnew();
    this.#parts.audits.found = null;
  }

  /** As the page gets it. */
  show(): StageShown {
    const { network, receiver, audits, project, isStaying } = this.#parts;
    this.begin();
    return {
      step: this.step,
      round: this.round,
      project,
      workers: this.crew?.shown ?? [],
      killed: this.killed,
      frozen: this.frozen,
      doubled: network.doubled,
      audit: audits.found,
      received: receiver.received,
      news: this.#news,
      isStaying,
    };
  }

  /** Resolves when somebody wants it to begin: a page asks, or a key is pressed. */
  wanted(): Promise<void> {
    return new Promise((resolve) => {
      this.#onBegin = resolve;
    });
  }

  /** Need not wait any longer. */
  begin(): void {
    this.#onBegin();
  }

  /** Resolves when another round is asked for. */
  askedAgain(): Promise<void> {
    return new Promise((resolve) => {
      this.#onAgain = resolve;
    });
  }

  /** Something happened; answers the same. */
  tell(text: string): string {
    this.#news.push({ at: Date.now(), text });
    if (this.#news.length > NEWS_MAX) this.#news.shift();
    this.#parts.onNews(text);
    return text;
  }

  /** Does it; answers what was done, in a sentence. */
  async act(deed: Deed): Promise<string> {
    if (deed === "again") {
      if (this.step !== "done") return this.tell("a round is under way: it has to end first");
      this.#onAgain();
      return "another round begins";
    }
    if (deed === "duplicate") return this.#duplicate();
    if (this.step === "done") {
      this.tell("nothing runs that could be harmed: another round begins");
      this.#onAgain();
    }
    await this.#untilAtWork();
    const done = deed === "kill" ? this.crew?.kill() : this.crew?.freeze();
    if (done === null || done === undefined)
      return this.tell("there is no worker for that just now: those that were killed are being replaced");
    if (deed === "kill") this.killed++;
    else this.frozen++;
    this.harmed();
    return done;
  }

  /** Has the auditor look now, and say what it finds; harms that come while it looks are covered by one more look. */
  harmed(): void {
    if (this.#audit !== "none") {
      this.#audit = "looks, and once more";
      return;
    }
    this.#audit = "looks";
    // A server that is closing answers no more; then there is nothing to be said either.
    this.#look().catch(() => {
      this.#audit = "none";
    });
  }

  async #look(): Promise<void> {
    for (;;) {
      this.#audit = "looks";
      await this.#untilAtWork();
      if (this.round !== null)
        this.tell(`the auditor finds ${verdictOf(await this.#parts.audits.look(executionsOf(this.round)))}`);
      if (this.#audit === "looks") break;
    }
    this.#audit = "none";
  }

  #duplicate(): string {
    const { network } = this.#parts;
    network.isDoubling = !network.isDoubling;
    const text = network.isDoubling
      ? "from now on, every message of a worker is delivered twice"
      : "messages are delivered once again";
    this.tell(text);
    if (network.isDoubling && this.step === "done") this.#onAgain();
    if (network.isDoubling) this.harmed();
    return text;
  }

  /** Waits for tasks under way, or for steps that have none. */
  async #untilAtWork(): Promise<void> {
    const until = Date.now() + PATIENCE_MS;
    while (Date.now() < until && (this.step === "opening" || this.step === "done" || this.#isIdle()))
      await new Promise((resolve) => {
        setTimeout(resolve, LOOK_MS);
      });
  }

  #isIdle(): boolean {
    return this.step === "fan-out" && !this.isAtWork();
  }
}
