import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { onTestFinished } from "vitest";

const SCRIPT = fileURLToPath(new URL("./store-child.mjs", import.meta.url));

/** A process that runs store-child.mjs. Its lines are read one by one. */
export class StoreChild {
  readonly #process: ChildProcess;
  readonly #lines: AsyncIterator<string>;
  readonly #exit: Promise<unknown[]>;
  errors = "";

  private constructor(command: string, args: string[]) {
    this.#process = spawn(command, args, { stdio: ["pipe", "pipe", "pipe"] });
    this.#exit = once(this.#process, "exit");
    this.#process.stderr?.setEncoding("utf8").on("data", (text: string) => {
      this.errors += text;
    });
    const { stdout } = this.#process;
    if (stdout === null) throw new Error("the child has no output");
    this.#lines = createInterface({ input: stdout })[Symbol.asyncIterator]();
    onTestFinished(() => this.kill());
  }

  static run(mode: "hold" | "commit" | "postgres", ...place: string[]): StoreChild {
    return new StoreChild(process.execPath, [SCRIPT, mode, ...place]);
  }

  /** With a limit on the size of files, beyond which the kernel refuses to write. */
  static runLimited(directory: string, blocks: number): StoreChild {
    const command = `ulimit -f ${blocks}; exec "$@"`;
    return new StoreChild("sh", ["-c", command, "sh", process.execPath, SCRIPT, "commit", directory]);
  }

  get pid(): number {
    return this.#process.pid ?? 0;
  }

  /** The next line, or null when the child has said its last. */
  async line(): Promise<string | null> {
    const { value, done } = await this.#lines.next();
    return done === true ? null : value;
  }

  /** Kills it as nothing can prevent; the lines it has said can still be read. */
  async kill(): Promise<void> {
    this.#process.kill("SIGKILL");
    await this.#exit;
  }

  /** Ends its input and waits for its exit code. */
  async end(): Promise<unknown> {
    this.#process.stdin?.end();
    return (await this.#exit)[0];
  }
}
