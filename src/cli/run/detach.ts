/**
 * Leaving while an execution is open. The first Ctrl-C (or SIGTERM) closes gracefully: what runs may end, nothing new
 * begins, and the execution waits in the store. The second leaves at once; nothing is lost by that either. Run by npm,
 * a process gets each Ctrl-C twice, from the terminal and from npm: the echo does not count.
 */
import { EXIT, type ExitCode } from "../exit-code.ts";
import type { Screen } from "../progress/screen.ts";

/** How long running tasks may take to end. */
const GRACE_MS = 5_000;
const ECHO_MS = 200;

export interface DetachOptions {
  readonly screen: Screen;
  readonly close: (options: { graceMs: number }) => Promise<void>;
  /** What is told when leaving begins. */
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

  /** The exit code if leaving was asked for, else null. */
  get exit(): ExitCode | null {
    return this.#exit;
  }

  /** Resolves when all is closed that was asked to be. */
  closed(): Promise<void> {
    return this.#closing;
  }

  /** Begins to leave, as by Ctrl-C. */
  ask(): void {
    this.#ask(EXIT.interrupted);
  }

  /** Gives the signals back. */
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
      this.#options.says ?? "leaving: tasks that run may end, nothing new begins; once more leaves at once",
    );
    this.#closing = close({ graceMs: GRACE_MS });
    // Whoever waits for `closed` gets the failure; until then it must not count as unhandled.
    this.#closing.catch(() => {});
  }
}
