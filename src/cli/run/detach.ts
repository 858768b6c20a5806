/**
 * Handles Ctrl-C and SIGTERM while an execution is open. The first signal closes gracefully: running tasks may finish, no new tasks
 * begin, and the execution stays in the store. The second signal ends the process at once; finished tasks are not lost. Under npm a
 * process gets each Ctrl-C twice, once from the terminal and once from npm, so a second signal right after the first is ignored.
 */
import { EXIT, type ExitCode } from "../exit-code.ts";
import type { Screen } from "../progress/screen.ts";

/** How long running tasks may take to finish. */
const GRACE_MS = 5_000;
const ECHO_MS = 200;

export interface DetachOptions {
  readonly screen: Screen;
  readonly close: (options: { graceMs: number }) => Promise<void>;
  /** The line that is printed after the first signal. */
  readonly says?: string;
  /** Ends the process at once. */
  readonly leave: (exit: ExitCode) => void;
}

export class Detach {
  readonly #options: DetachOptions;
  #exit: ExitCode | null = null;
  #askedAt = 0;
  #closing: Promise<void> = Promise.resolve();
  readonly #onInterrupt = () => this.#ask(EXIT.interrupted);
  readonly #onTerminate = () => this.#ask(EXIT.terminated);

  constructor(options: DetachOptions) {
    this.#options = options;
    process.on("SIGINT", this.#onInterrupt);
    process.on("SIGTERM", this.#onTerminate);
  }

  /** The exit code if a signal arrived, otherwise null. */
  get exit(): ExitCode | null {
    return this.#exit;
  }

  /** Resolves when the graceful close is complete. */
  closed(): Promise<void> {
    return this.#closing;
  }

  /** Begins the graceful close, as Ctrl-C does. */
  ask(): void {
    this.#ask(EXIT.interrupted);
  }

  /** Removes the signal handlers. */
  stop(): void {
    process.off("SIGINT", this.#onInterrupt);
    process.off("SIGTERM", this.#onTerminate);
  }

  #ask(exit: ExitCode): void {
    const { screen, close, leave } = this.#options;
    const now = Date.now();
    if (exit === this.#exit && now - this.#askedAt < ECHO_MS) return;
    if (this.#exit !== null) return leave(exit);
    this.#exit = exit;
    this.#askedAt = now;
    screen.print(
      this.#options.says ??
        "leaving: running tasks may finish, no new ones begin; press Ctrl-C again to stop at once",
    );
    this.#closing = close({ graceMs: GRACE_MS });
    // `closed` reports the failure to its caller. This handler keeps the rejection from counting as unhandled before that.
    this.#closing.catch(() => {});
  }
}
