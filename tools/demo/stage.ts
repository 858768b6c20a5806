/**
 * The state of the demo for the terminal and the page, and the actions on it. Harm that is requested while nothing runs begins
 * another round.
 */
import { type AuditWatch, executionsOf, type Found, verdictOf } from "./audit-watch.ts";
import type { BadNetwork, Doubled } from "./harm/bad-network.ts";
import type { WorkerCrew, WorkerShown } from "./harm/worker-crew.ts";
import type { Received, Receiver } from "./receiver.ts";

export type Step = "opening" | "fan-out" | "commands" | "script" | "proof" | "done";

/** The actions on the demo. */
export const DEEDS = ["kill", "freeze", "duplicate", "again"] as const;
export type Deed = (typeof DEEDS)[number];

/** One run of all parts of the demo. */
export interface Round {
  readonly id: string;
  readonly tasks: number;
  readonly commands: string;
  readonly script: string;
}

/** The state of the demo for the page. */
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
  /** Called with a sentence about each event. */
  readonly onNews: (text: string) => void;
}

const NEWS_MAX = 30;
const LOOK_MS = 50;
/** How long an action waits for running tasks. */
const PATIENCE_MS = 10_000;

export class Stage {
  readonly #parts: StageParts;
  step: Step = "opening";
  round: Round | null = null;
  crew: WorkerCrew | null = null;
  /** Whether tasks run now. */
  isAtWork: () => boolean = () => false;
  killed = 0;
  frozen = 0;
  readonly #news: { at: number; text: string }[] = [];
  #onBegin: () => void = () => {};
  #onAgain: () => void = () => {};
  /** Whether an audit after a harm is running, and whether another one must follow. */
  #audit: "none" | "looks" | "looks, and once more" = "none";

  constructor(parts: StageParts) {
    this.#parts = parts;
  }

  /** Begins another round, and forgets the harm of the last one. */
  begins(round: Round): void {
    this.round = round;
    this.killed = 0;
    this.frozen = 0;
    this.#parts.network.countAnew();
    this.#parts.audits.found = null;
  }

  /** The state for the page. */
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

  /** Resolves when the user begins the demo, by a page or a key. */
  wanted(): Promise<void> {
    return new Promise((resolve) => {
      this.#onBegin = resolve;
    });
  }

  /** Begins the demo without waiting any longer. */
  begin(): void {
    this.#onBegin();
  }

  /** Resolves when another round is requested. */
  askedAgain(): Promise<void> {
    return new Promise((resolve) => {
      this.#onAgain = resolve;
    });
  }

  /** Reports an event; returns its text. */
  report(text: string): string {
    this.#news.push({ at: Date.now(), text });
    if (this.#news.length > NEWS_MAX) this.#news.shift();
    this.#parts.onNews(text);
    return text;
  }

  /** Performs an action; returns a sentence about it. */
  async act(deed: Deed): Promise<string> {
    if (deed === "again") {
      if (this.step !== "done") return this.report("a round is under way: it has to end first");
      this.#onAgain();
      return "another round begins";
    }
    if (deed === "duplicate") return this.#duplicate();
    if (this.step === "done") {
      this.report("no task runs, so another round begins");
      this.#onAgain();
    }
    await this.#untilAtWork();
    const done = deed === "kill" ? this.crew?.kill() : this.crew?.freeze();
    if (done === null || done === undefined)
      return this.report("there is no worker for that now: killed workers are being replaced");
    if (deed === "kill") this.killed++;
    else this.frozen++;
    this.harmed();
    return done;
  }

  /** Runs an audit now and reports its findings. Harm that happens during the audit causes one more audit. */
  harmed(): void {
    if (this.#audit !== "none") {
      this.#audit = "looks, and once more";
      return;
    }
    this.#audit = "looks";
    // A server that is closing does not answer any more.
    this.#reportAudits().catch(() => {
      this.#audit = "none";
    });
  }

  async #reportAudits(): Promise<void> {
    for (;;) {
      this.#audit = "looks";
      await this.#untilAtWork();
      if (this.round !== null)
        this.report(
          `the auditor finds ${verdictOf(await this.#parts.audits.audit(executionsOf(this.round)))}`,
        );
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
    this.report(text);
    if (network.isDoubling && this.step === "done") this.#onAgain();
    if (network.isDoubling) this.harmed();
    return text;
  }

  /** Waits until tasks run, or until a step without tasks runs. */
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
