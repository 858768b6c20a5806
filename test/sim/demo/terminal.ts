/** A program on a terminal of its own, that somebody types at: by util-linux's `script`, which makes one. */
import { type ChildProcess, spawn } from "node:child_process";
import { stripVTControlCharacters } from "node:util";
import { onTestFinished } from "vitest";

interface Waiting {
  readonly pattern: RegExp;
  readonly found: (line: string) => void;
  readonly failed: (error: Error) => void;
}

export class Terminal {
  /** The exit code; 128 and more for a signal. */
  readonly ended: Promise<number | null>;
  readonly #child: ChildProcess;
  #text = "";
  /** Lines before this place have been waited for. */
  #from = 0;
  #waiting: Waiting | null = null;

  constructor(
    command: readonly string[],
    { cwd, env = {} }: { cwd: string; env?: Readonly<Record<string, string>> },
  ) {
    const quoted = command.map((word) => `'${word}'`).join(" ");
    const outside = Object.entries(process.env).filter(([name]) => !/^(?:RONDO_|CI$|NO_COLOR$)/.test(name));
    this.#child = spawn("script", ["-qefc", `exec ${quoted}`, "/dev/null"], {
      cwd,
      env: { ...Object.fromEntries(outside), TERM: "xterm", ...env },
      stdio: ["pipe", "pipe", "inherit"],
    });
    this.#child.stdout?.on("data", (data: Buffer) => {
      this.#text += data.toString();
      this.#look();
    });
    this.ended = new Promise((resolve) => {
      this.#child.on("close", (code) => {
        this.#waiting?.failed(new Error(`ended before ${this.#waiting.pattern}:\n${this.text}`));
        resolve(code);
      });
    });
    onTestFinished(() => void this.#child.kill("SIGKILL"));
  }

  /** Everything that was written, without colours. */
  get text(): string {
    return stripVTControlCharacters(this.#text).replaceAll("\r", "");
  }

  /** Presses these keys. */
  type(keys: string): void {
    this.#child.stdin?.write(keys);
  }

  /** The next line that fits, after the one that was waited for before. */
  line(pattern: RegExp): Promise<string> {
    return new Promise((found, failed) => {
      this.#waiting = { pattern, found, failed };
      this.#look();
    });
  }

  #look(): void {
    const lines = this.text.split("\n");
    const place = lines.findIndex((line, i) => i >= this.#from && this.#waiting?.pattern.test(line));
    if (place < 0) return;
    const { found } = this.#waiting as Waiting;
    this.#waiting = null;
    this.#from = place + 1;
    found(lines[place] as string);
  }
}
