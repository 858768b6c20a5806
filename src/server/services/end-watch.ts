/**
 * Waits for the end of an execution, wherever its owner is. It watches from the beginning, so that an end between a start or a
 * read and the wait is not missed.
 */
import type { EnginePort } from "../../engine/engine-port.ts";
import type { Ending } from "../../engine/io.ts";
import type { ExecutionView } from "../../kernel/view.ts";
import type { Clock } from "../../std/clock.ts";

/** The end of a wait: the execution has ended, the time is over, or the caller has gone or the server closes. */
export type WaitEnd = Ending | "late" | "stopped";

export class EndWatch {
  readonly #clock: Pick<Clock, "after">;
  readonly #unwatch: () => void;
  #end: Ending | "stopped" | null = null;
  #view: ExecutionView | null = null;
  #onEnd: () => void = () => {};

  constructor(engine: Pick<EnginePort, "watch">, clock: Pick<Clock, "after">, execution: string) {
    this.#clock = clock;
    this.#unwatch = engine.watch(execution, (_, end) => {
      if (end === null) return;
      this.#end = end;
      if (end !== "stopped") this.#view = end.view?.() ?? null;
      this.#onEnd();
    });
  }

  /** The execution as it ended; null if it has not ended, or ended at another node. */
  get view(): ExecutionView | null {
    return this.#view;
  }

  /** Waits for at most `ms`, or until `signal` is aborted. */
  wait(ms: number, signal: AbortSignal): Promise<WaitEnd> {
    return new Promise((resolve) => {
      const settle = (end: WaitEnd): void => {
        cancel();
        signal.removeEventListener("abort", stop);
        this.stop();
        resolve(end);
      };
      const stop = (): void => settle("stopped");
      const cancel = this.#clock.after(ms, () => settle("late"));
      this.#onEnd = () => settle(this.#end ?? "stopped");
      signal.addEventListener("abort", stop);
      if (signal.aborted) stop();
      else if (this.#end !== null) this.#onEnd();
    });
  }

  stop(): void {
    this.#onEnd = () => {};
    this.#unwatch();
  }
}
