/**
 * Guards a process that runs user code: `console` writes to stderr, and if user code ends the process, the reason is printed.
 */
import { Console } from "node:console";
import { Writable } from "node:stream";
import { EXIT, type ExitCode } from "../exit-code.ts";
import type { Screen } from "../progress/screen.ts";

export class ProcessGuard {
  readonly #screen: Screen;
  readonly #console = globalThis.console;
  readonly #onThrown = (error: unknown) => this.#printThrown(error);
  readonly #onExit = (code: number) => this.#printExit(code);
  /** The command that continues the execution; null while there is no execution. */
  goOn: string | null = null;

  constructor(screen: Screen) {
    this.#screen = screen;
    const stream = new Writable({
      decodeStrings: false,
      write(text: string, _encoding, done) {
        screen.write(text);
        done();
      },
    });
    globalThis.console = new Console({ stdout: stream, stderr: stream });
    process.on("uncaughtException", this.#onThrown);
    process.on("exit", this.#onExit);
  }

  /** Ends the process at once, without the message about an unexpected end. */
  leave(exit: ExitCode): never {
    this.release();
    this.#screen.still();
    process.exit(exit);
  }

  /** Ends the process because a part of Rondo failed with a bug. */
  stop(part: "engine" | "worker", thrown: unknown): never {
    this.#screen.print(["✗", "red"], ` the ${part} of Rondo failed and had to stop: ${textOf(thrown)}`);
    this.leave(EXIT.broken);
  }

  /** Restores the console and the handlers. */
  release(): void {
    globalThis.console = this.#console;
    process.off("uncaughtException", this.#onThrown);
    process.off("exit", this.#onExit);
  }

  #printThrown(error: unknown): void {
    this.#screen.still();
    this.#screen.print(
      ["✗", "red"],
      ` user code threw outside of any task, which ends this process: ${textOf(error)}`,
    );
    this.#printContinue();
    this.leave(EXIT.broken);
  }

  #printExit(code: number): void {
    this.#screen.still();
    this.#screen.print(["✗", "red"], ` user code ended this process by process.exit(${code})`);
    this.#printContinue();
    // The execution has not ended, so the exit code must not be 0.
    if (code === EXIT.ok) process.exitCode = EXIT.broken;
  }

  #printContinue(): void {
    if (this.goOn !== null) this.#screen.print(`  finished tasks are stored; to continue: ${this.goOn}`);
  }
}

function textOf(thrown: unknown): string {
  return thrown instanceof Error ? (thrown.stack ?? thrown.message) : String(thrown);
}
