/**
 * Keeps a process that hosts user code in order: `console` goes to stderr, so that stdout is data only; and when user
 * code ends the process, by an error that nobody catches or by `process.exit`, it is said what that means.
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
  /** The command that goes on with what was left, once there is something. */
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

  /** Ends the process at once, on purpose. */
  leave(exit: ExitCode): never {
    this.release();
    this.#screen.still();
    process.exit(exit);
  }

  /** Lets everything be as it was. */
  release(): void {
    globalThis.console = this.#console;
    process.off("uncaughtException", this.#onThrown);
    process.off("exit", this.#onExit);
  }

  #printThrown(error: unknown): void {
    const what = error instanceof Error ? (error.stack ?? error.message) : String(error);
    this.#screen.still();
    this.#screen.print(["✗", "red"], ` code threw outside of any task, which ends this process: ${what}`);
    this.#printContinue();
    this.leave(EXIT.broken);
  }

  #printExit(code: number): void {
    this.#screen.still();
    this.#screen.print(["✗", "red"], ` code ended this process by process.exit(${code})`);
    this.#printContinue();
    // The execution is not over: that is no success.
    if (code === EXIT.ok) process.exitCode = EXIT.broken;
  }

  #printContinue(): void {
    if (this.goOn !== null) this.#screen.print(`  what is done is kept; go on with: ${this.goOn}`);
  }
}
