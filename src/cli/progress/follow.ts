/**
 * Shows the progress of an execution: follows its events, prints a line for each ended phase, and redraws the line of the current phase.
 */
import type { ExecutionHandle } from "../../index.ts";
import { RETURNS } from "../../kernel/definition/definition.ts";
import type { Piece } from "../style.ts";
import { phaseLine, phaseName, phaseNews, settledOf, showCount } from "./phase-line.ts";
import type { PhaseProgress, Progress } from "./progress.ts";
import type { Screen } from "./screen.ts";

export interface FollowOptions {
  readonly screen: Screen;
  /** The progress at the beginning. */
  readonly progress: Progress;
  /** The number of the first event that `progress` does not include. */
  readonly from: number;
  /** The names of all phases. Their longest name decides the alignment of the lines. */
  readonly names: readonly string[];
  /** Returns a sentence that explains what the execution waits for. */
  readonly why: () => Promise<string>;
  /** Whether to print a line for each tenth of a phase as well, if the output is not a terminal. */
  readonly tellsTenths?: boolean;
  /** The number of tasks of each phase, if it is known before the enumeration. */
  readonly totals?: Readonly<Record<string, number>>;
  /** Additional live lines below the current phase. */
  readonly beneath?: () => readonly (readonly Piece[])[];
}

/** After this time without events, the reason why the execution waits is shown, and again at this interval. */
const SILENCE_MS = 2_000;
const ASK_MS = 1_000;
const LASTING_SILENCE_MS = 3_000;

/** Follows an execution until it ends or the engine is closed. */
export async function follow(handle: ExecutionHandle<unknown>, options: FollowOptions): Promise<void> {
  const { screen, progress } = options;
  const view = new LiveView(options);
  const tenths = new Map<PhaseProgress, number>();
  screen.live(() => [...view.lines(Date.now()), ...(options.beneath?.() ?? [])]);
  const timer = screen.isLive ? null : setInterval(() => view.printWhy(Date.now()), ASK_MS);
  timer?.unref();
  try {
    for await (const event of handle.events({ from: options.from, detail: "summary" })) {
      view.moved(event.at);
      const news = progress.apply(event);
      if (news !== null) printPhase(screen, news, view);
      else if (options.tellsTenths && !screen.isLive) printTenth(options, tenths);
    }
  } finally {
    if (timer !== null) clearInterval(timer);
    screen.still();
  }
}

/** Prints the line of a phase. The phase in which Rondo computes the output is shown only if it fails. */
function printPhase(screen: Screen, phase: PhaseProgress, view: LiveView): void {
  if (phase.name === RETURNS && phase.status !== "failed") return;
  const isOver = phase.finishedAt !== null;
  if (!screen.isLive) screen.print(phaseNews(phase));
  else if (isOver) screen.print(...view.line(phase, 0));
}

/** Prints a line for each tenth of a phase that has been reached. `tenths` has the tenths that were printed before. */
function printTenth(
  { screen, progress, totals = {} }: FollowOptions,
  tenths: Map<PhaseProgress, number>,
): void {
  const phase = progress.current;
  const total = phase === null ? undefined : (totals[phase.name] ?? (phase.isSealed ? phase.total : 0));
  if (phase === null || total === undefined || total < 10) return;
  const tenth = Math.floor((settledOf(phase) * 10) / total);
  if (tenth === (tenths.get(phase) ?? 0) || tenth === 10) return;
  tenths.set(phase, tenth);
  screen.print(`${phaseName(phase)}: ${showCount(settledOf(phase))} of ${showCount(total)}`);
}

class LiveView {
  readonly #options: FollowOptions;
  readonly #nameWidth: number;
  #rate = new Rate();
  #rated: PhaseProgress | null = null;
  #movedAt = Date.now();
  #askedAt = 0;
  #why = "";
  readonly #said = new Set<string>();

  constructor(options: FollowOptions) {
    this.#options = options;
    this.#nameWidth = Math.min(24, Math.max(...options.names.map((name) => name.length), 1));
  }

  moved(at: number): void {
    this.#movedAt = Math.max(at, this.#movedAt);
    this.#why = "";
  }

  /** Returns the live lines: the running phase, and why the execution waits if no event has arrived for a while. */
  lines(now: number): Piece[][] {
    const { current } = this.#options.progress;
    if (current === null) return [];
    if (current !== this.#rated) {
      this.#rated = current;
      this.#rate = new Rate();
    }
    this.#rate.note(settledOf(current), now);
    if (now - this.#movedAt > SILENCE_MS) this.#ask(now);
    const line = this.line(current, now);
    return this.#why === "" ? [line] : [line, [[`  ${this.#why}`, "dim"]]];
  }

  /**
   * Prints why the execution waits, if the output cannot be redrawn. A reason that differs from the last one only in its numbers is not
   * printed again.
   */
  printWhy(now: number): void {
    if (now - this.#movedAt <= LASTING_SILENCE_MS) return;
    this.#ask(now);
    const kind = this.#why.replaceAll(/(?:\d[\d.]* ?(?:ms|s|m|h|d)?\b ?)+/g, "0");
    if (this.#why === "" || this.#said.has(kind)) return;
    this.#said.add(kind);
    this.#options.screen.print(`  ${this.#why}`);
    if (this.#why.includes("waits for a worker"))
      this.#options.screen.print(
        "  start a worker: rondo worker FILE; Ctrl-C ends this command, and the execution continues later",
      );
  }

  line(phase: PhaseProgress, now: number): Piece[] {
    const { columns } = this.#options.screen;
    return phaseLine(phase, {
      now,
      columns,
      perSecond: this.#rate.perSecond(),
      nameWidth: this.#nameWidth,
    });
  }

  #ask(now: number): void {
    if (now - this.#askedAt < ASK_MS) return;
    this.#askedAt = now;
    this.#options.why().then(
      (why) => {
        if (now - this.#movedAt > SILENCE_MS) this.#why = why;
      },
      () => {
        // The engine is closing, so the reason for waiting does not matter.
        this.#why = "";
      },
    );
  }
}

/** Measures the growth rate of a number over the last few seconds. */
const WINDOW_MS = 3_000;
const SAMPLE_MS = 100;

export class Rate {
  readonly #samples: { at: number; value: number }[] = [];

  /** Records the value at the time `now`. */
  note(value: number, now: number): void {
    const last = this.#samples.at(-1);
    if (last !== undefined && now - last.at < SAMPLE_MS) return;
    this.#samples.push({ at: now, value });
    while (this.#samples.length > 2 && now - (this.#samples[1] as { at: number }).at > WINDOW_MS)
      this.#samples.shift();
  }

  /** The growth per second; 0 if it is not known yet. */
  perSecond(): number {
    const first = this.#samples[0];
    const last = this.#samples.at(-1);
    if (first === undefined || last === undefined || last.at === first.at) return 0;
    return Math.max(0, ((last.value - first.value) * 1_000) / (last.at - first.at));
  }
}
