/**
 * Ending a process that serves: the first Ctrl-C or SIGTERM closes gracefully, the second leaves at once; nothing is
 * lost by that either. Run by npm, a process gets each Ctrl-C twice: the echo does not count.
 */
import { EXIT, type ExitCode } from "../exit-code.ts";

const ECHO_MS = 200;

export class Shutdown {
  /** Resolves when ending is asked for. */
  readonly asked: Promise<void>;
  #ask: () => void = () => {};
  #askedAt: number | null = null;
  readonly #onInterrupt = () => this.#signalled(EXIT.interrupted);
  readonly #onTerminate = () => this.#signalled(EXIT.terminated);

  constructor() {
    this.asked = new Promise((resolve) => {
      this.#ask = resolve;
    });
    process.on("SIGINT", this.#onInterrupt);
    process.on("SIGTERM", this.#onTerminate);
  }

  /** Asks for the end from within. */
  end(): void {
    this.#ask();
  }

  /** Gives the signals back. */
  stop(): void {
    process.off("SIGINT", this.#onInterrupt);
    process.off("SIGTERM", this.#onTerminate);
  }

  #signalled(exit: ExitCode): void {
    const now = Date.now();
    if (this.#askedAt !== null) {
      if (now - this.#askedAt >= ECHO_MS) process.exit(exit);
      return;
    }
    this.#askedAt = now;
    this.#ask();
  }
}
