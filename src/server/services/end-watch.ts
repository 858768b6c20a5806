/**
 * Waits for the end of an execution, wherever its owner is. It watches from the beginning, so that an end between a start or a
 * read and the wait is not missed.
 */
import type { EnginePort } from "../../engine/engine-port.ts";
import type { Ending, Inspection } from "../../engine/io.ts";
import { EndOfNewest } from "../../engine/newest.ts";
import type { ExecutionView } from "../../kernel/view.ts";
import type { Clock } from "../../std/clock.ts";
import type { Ask } from "../route.ts";

/** The end of a wait: the execution has ended, the time is over, or the caller has gone or the server closes. */
export type WaitEnd = Ending | "late" | "stopped";

export class EndWatch {
  readonly #clock: Pick<Clock, "after">;
  readonly #watch: EndOfNewest;
  /** The execution that has ended; before that, the execution with the id that was given. */
  execution: string;
  #end: Ending | "stopped" | null = null;
  #view: ExecutionView | null = null;
  #onEnd: () => void = () => {};

  constructor(engine: Pick<EnginePort, "inspect" | "watch">, clock: Pick<Clock, "after">, execution: string) {
    this.#clock = clock;
    this.execution = execution;
    this.#watch = new EndOfNewest(engine, execution, (end, last) => {
      this.#end = end;
      this.execution = last;
      if (end !== "stopped") this.#view = end.view?.() ?? null;
      this.#onEnd();
    });
  }

  /** Finds the newest execution of the id, and watches it. */
  async find(): Promise<void> {
    await this.#watch.inspect();
  }

  /** Watches the newest execution of the id, which the caller has found already. */
  follow(found: Inspection): void {
    this.#watch.found(found);
  }

  /** The view of the execution at its end; null if it has not ended, or ended at another node. */
  get view(): ExecutionView | null {
    return this.#view;
  }

  /** Waits for at most `ms`, or until the request of the caller is over. */
  wait(ms: number, request: Pick<Ask, "whenOver">): Promise<WaitEnd> {
    return new Promise((resolve) => {
      let stopWatching = (): void => {};
      const settle = (end: WaitEnd): void => {
        cancel();
        stopWatching();
        this.stop();
        resolve(end);
      };
      const cancel = this.#clock.after(ms, () => settle("late"));
      stopWatching = request.whenOver(() => settle("stopped"));
      this.#onEnd = () => settle(this.#end ?? "stopped");
      if (this.#end !== null) this.#onEnd();
    });
  }

  stop(): void {
    this.#onEnd = () => {};
    this.#watch.stop();
  }
}
