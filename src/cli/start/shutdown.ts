/** Ctrl-C and SIGTERM in a process that serves: the first signal closes gracefully, the second ends the process at once. */
import { EXIT, type ExitCode } from "../exit-code.ts";

const ECHO_MS = 200;

export class Shutdown {
  /** Resolves when a shutdown is requested. */
  readonly asked: Promise<void>;
  #ask: () => void = () => {};
  #askedAt: number | null = null;
  readonly #onInterrupt = () => this.#signalled(EXIT.interrupted);
  readonly #onTerminate = () => this.#signalled(EXIT.terminated);

  readonly #leave: (exit: ExitCode) => void;

  /** `leave` ends the process at the second signal. */
  constructor(leave: (exit: ExitCode) => void = (exit) => process.exit(exit)) {
    this.#leave = leave;
    this.asked = new Promise((resolve) => {
      this.#ask = resolve;
    });
    process.on("SIGINT", this.#onInterrupt);
    process.on("SIGTERM", this.#onTerminate);
  }

  /** Requests the shutdown from within the process. */
  end(): void {
    this.#ask();
  }

  /** Removes the signal handlers. */
  stop(): void {
    process.off("SIGINT", this.#onInterrupt);
    process.off("SIGTERM", this.#onTerminate);
  }

  #signalled(exit: ExitCode): void {
    const now = Date.now();
    if (this.#askedAt !== null) {
      if (now - this.#askedAt >= ECHO_MS) this.#leave(exit);
      return;
    }
    this.#askedAt = now;
    this.#ask();
  }
}
