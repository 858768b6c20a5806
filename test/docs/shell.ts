/**
 * One bash for a whole page, as one terminal: folders, variables and processes in the background stay from one command to
 * the next. What serves or works without end is put into the background, as another terminal, and waited for until it
 * says that it is ready. All of it is killed at the end.
 */
import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { createInterface, type Interface } from "node:readline";
import type { Writable } from "node:stream";
import { until } from "../faults/until.ts";

/** What a command did. */
export interface Done {
  readonly status: number;
  readonly stdout: string;
  readonly stderr: string;
}

interface Job {
  readonly command: string;
  readonly log: string;
  readonly pid: number;
}

const LOOP = `while IFS= read -r file <&3; do
  . "$file" </dev/null >"$file.out" 2>"$file.err" 3<&- 4>&-
  echo "$?" >&4
done`;

/** What says that a process in the background is ready; anything at all for others. */
const READY: readonly (readonly [command: RegExp, line: RegExp])[] = [
  [/\brondo start\b/, /^(?:http|\{"url")/m],
  [/\brondo (?:dev|worker)\b|worker\.py\b/, / serves /],
];
/** The longest that one command may take, on a machine with much to do. */
const LIMIT_MS = 90_000;
const RUNS = /\brondo run\b/;
const ENDLESS = /^(?:[A-Z_]+=\S+ )*(?:rondo (?:start|dev|worker)|python3 \S*worker\.py)\b/;

export class Shell {
  readonly #cwd: string;
  readonly #notes: string;
  readonly #bash: ChildProcess;
  readonly #statuses: AsyncIterator<string>;
  readonly #lines: Interface;
  #jobs: Job[] = [];
  #count = 0;

  /** `notes` is a folder for what is said, outside of `cwd`. */
  constructor(options: { cwd: string; notes: string; env: Readonly<Record<string, string>> }) {
    this.#cwd = options.cwd;
    this.#notes = options.notes;
    this.#bash = spawn("bash", ["--norc", "-c", LOOP], {
      cwd: options.cwd,
      env: options.env,
      stdio: ["ignore", "ignore", "inherit", "pipe", "pipe"],
      detached: true,
    });
    this.#lines = createInterface({ input: this.#bash.stdio[4] as NodeJS.ReadableStream });
    this.#statuses = this.#lines[Symbol.asyncIterator]();
  }

  /** Runs one command; one for the background is waited for until it is ready. */
  async run(command: string): Promise<Done> {
    if (!stays(command)) return this.#source(command);
    const bare = bareOf(command);
    const log = join(this.#notes, `job-${this.#count}`);
    const done = await this.#source(`${bare.replace(/&$/, "")} >"${log}" 2>&1 &\necho $! >"${log}.pid"`);
    const job = { command: bare, log, pid: Number(readFileSync(`${log}.pid`, "utf8")) };
    this.#jobs.push(job);
    await this.#ready(job);
    return done;
  }

  /** Waits for what a page runs in the background and expects to end: how each did. */
  async ends(): Promise<{ command: string; status: number; said: string }[]> {
    const ends = [];
    for (const { command, log, pid } of this.#jobs.filter(({ command }) => RUNS.test(command))) {
      const { status } = await this.#source(`wait ${pid}`);
      ends.push({ command, status, said: readFileSync(log, "utf8") });
    }
    return ends;
  }

  /** Ends everything that was started, as hard as can be. */
  async close(): Promise<void> {
    const gone = this.#bash.exitCode === null ? once(this.#bash, "exit") : null;
    if (this.#bash.pid !== undefined) killGroup(this.#bash.pid);
    await gone;
    this.#lines.close();
  }

  async #source(text: string): Promise<Done> {
    const file = join(this.#notes, `command-${this.#count++}`);
    writeFileSync(file, `${text}\n`);
    (this.#bash.stdio[3] as Writable).write(`${file}\n`);
    const { value, done } = await within(this.#statuses.next(), `it does not end: ${text}`);
    if (done === true) throw new Error(`the shell ended at: ${text}`);
    const said = (stream: string): string => readFileSync(`${file}.${stream}`, "utf8");
    return { status: Number(value), stdout: said("out"), stderr: said("err") };
  }

  async #ready({ command, log, pid }: Job): Promise<void> {
    const line = READY.find(([pattern]) => pattern.test(command))?.[1] ?? /./;
    const said = (): string => (existsSync(log) ? readFileSync(log, "utf8") : "");
    // A run can be steered through its socket, which it opens after a moment.
    const isReady = (): boolean =>
      line.test(said()) && (!RUNS.test(command) || existsSync(join(this.#cwd, ".rondo", "rondo.sock")));
    await until(`ready: ${command}`, () => isReady() || !isAlive(pid), { state: said });
    if (!line.test(said())) throw new Error(`ended at once: ${command}\n${said()}`);
  }
}

/** Whether a command goes on by itself while the next one is typed: it serves without end, or is in the background. */
export function stays(command: string): boolean {
  const bare = bareOf(command);
  return bare.endsWith("&") || ENDLESS.test(bare);
}

/** A command without the comment behind it. */
function bareOf(command: string): string {
  return command.replace(/\s+#[^'"\n]*$/, "").trim();
}

/** The commands of a block: lines, joined where bash would ask for more. */
export function commandsOf(text: string): string[] {
  const commands: string[] = [];
  let command = "";
  for (const line of text.split("\n")) {
    command += command === "" ? line : `\n${line}`;
    if (/^\s*(?:#.*)?$/.test(command)) command = "";
    else if (isWhole(command)) {
      commands.push(command);
      command = "";
    }
  }
  if (command.trim() !== "") throw new Error(`not a whole command: ${command}`);
  return commands;
}

function isWhole(command: string): boolean {
  if (command.endsWith("\\")) return false;
  const { status, stderr } = spawnSync("bash", ["-n", "-c", command], { encoding: "utf8" });
  return status === 0 && stderr === "";
}

/** What hangs is named, instead of the whole page. */
async function within<T>(promise: Promise<T>, complaint: string): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(complaint)), LIMIT_MS);
  });
  try {
    return await Promise.race([promise, late]);
  } finally {
    clearTimeout(timer);
  }
}

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ESRCH") return false;
    throw error;
  }
}

function killGroup(pid: number): void {
  try {
    process.kill(-pid, "SIGKILL");
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ESRCH") throw error;
  }
}
