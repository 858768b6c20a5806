/**
 * The workers of the demo, each a process of its own (`rondo worker`):
 * 1. A worker that is killed or dies is replaced a moment later.
 * 2. A frozen worker is thawed after a while by a separate process, even if the demo has ended by then.
 * 3. All workers end with the demo, because their pipe to it closes.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { fileURLToPath } from "node:url";
import { CliError } from "../../../src/cli/cli-error.ts";
import { EXIT } from "../../../src/cli/exit-code.ts";
import { packageRoot } from "../../../src/package-root.ts";

export type WorkerState = "starting" | "working" | "frozen" | "killed";

/** A worker as the page shows it. */
export interface WorkerShown {
  readonly name: string;
  readonly pid: number | null;
  readonly state: WorkerState;
}

export interface CrewOptions {
  /** The address of the server, for workers. */
  readonly url: string;
  readonly size: number;
  /** The file to which deliveries are written; null if they are not recorded. */
  readonly deliveries: string | null;
  /** Called with a sentence about each event. */
  readonly onNews: (news: string) => void;
  /** Called when a frozen worker has been thawed. */
  readonly onThaw: () => void;
}

interface Member {
  readonly name: string;
  readonly child: ChildProcess;
  state: WorkerState;
  /** The last output of the worker on stderr. */
  words: string;
}

/** How long a worker stays frozen: longer than the silence after which its tasks are lost. */
export const FREEZE_S = 6;
const REPLACE_MS = 1_000;
const CAPACITY = 1_000;
/** After this many ends before the first start, workers cannot be started. */
const HOPELESS = 3;
const WORDS_MAX = 2_000;

export class WorkerCrew {
  readonly #options: CrewOptions;
  readonly #members = new Set<Member>();
  #numbers = 0;
  #failedStarts = 0;
  #isClosing = false;
  /** Resolves when the first worker serves; rejects if none can be started. */
  readonly ready: Promise<void>;
  #serve: () => void = () => {};
  #fail: (reason: Error) => void = () => {};

  constructor(options: CrewOptions) {
    this.#options = options;
    this.ready = new Promise((resolve, reject) => {
      this.#serve = resolve;
      this.#fail = reject;
    });
    // A caller that awaits `ready` gets the error; until then it must not count as unhandled.
    this.ready.catch(() => {});
    for (let i = 0; i < options.size; i++) this.#add();
  }

  get shown(): WorkerShown[] {
    return Array.from(this.#members, ({ name, child, state }) => ({ name, pid: child.pid ?? null, state }));
  }

  /** Kills a worker with SIGKILL; null if there is none to kill now. */
  kill(): string | null {
    const member = this.#oneAtWork();
    if (member === null) return null;
    member.state = "killed";
    member.child.kill("SIGKILL");
    return this.#report(`${member.name} (pid ${member.child.pid}) was killed with -9`);
  }

  /** Stops a worker with SIGSTOP, and continues it later; null if there is none. */
  freeze(): string | null {
    const member = this.#oneAtWork();
    if (member === null || member.child.pid === undefined) return null;
    member.state = "frozen";
    const script = `kill -STOP $1; sleep ${FREEZE_S}; kill -CONT $1`;
    const freezer = spawn("sh", ["-c", script, "sh", String(member.child.pid)], {
      detached: true,
      stdio: "ignore",
    });
    freezer.once("error", () => {
      if (member.state === "frozen") member.state = "working";
    });
    freezer.once("exit", () => {
      if (member.state !== "frozen") return;
      member.state = "working";
      this.#report(`${member.name} goes on, and does not know that it was frozen`);
      this.#options.onThaw();
    });
    freezer.unref();
    return this.#report(`${member.name} (pid ${member.child.pid}) is frozen for ${FREEZE_S} s`);
  }

  /** Ends all workers. */
  async close(): Promise<void> {
    this.#isClosing = true;
    this.#fail(new Error("the demo was ended before its first worker served"));
    const ends = Array.from(this.#members, ({ child }) => {
      const end = ended(child);
      child.kill("SIGKILL");
      return end;
    });
    await Promise.all(ends);
  }

  #oneAtWork(): Member | null {
    return [...this.#members].find(({ state }) => state === "working") ?? null;
  }

  #add(): void {
    const { url, deliveries } = this.#options;
    const name = `worker-${++this.#numbers}`;
    const served = fileURLToPath(new URL("../parts/served.js", import.meta.url));
    const args = ["worker", served, "--url", url, "--name", name, "--capacity", String(CAPACITY)];
    const child = spawn(process.execPath, [`${packageRoot()}bin/rondo.js`, ...args, "--unsafe-no-jail"], {
      cwd: packageRoot(),
      env: environment(deliveries),
      // A process group of its own: Ctrl-C goes only to the demo, which then ends the workers.
      detached: true,
      stdio: ["ignore", "ignore", "pipe", "ipc"],
    });
    const member: Member = { name, child, state: "starting", words: "" };
    this.#members.add(member);
    child.stderr?.on("data", (data: Buffer) => {
      member.words = (member.words + data.toString()).slice(-WORDS_MAX);
    });
    child.on("message", (message) => {
      if ((message as { kind?: unknown } | null)?.kind === "ready") this.#serves(member);
    });
    child.once("error", (error) => {
      member.words ||= error.message;
      this.#gone(member);
    });
    child.once("exit", () => this.#gone(member));
  }

  #serves(member: Member): void {
    if (member.state !== "starting") return;
    member.state = "working";
    this.#failedStarts = 0;
    if (this.#numbers > this.#options.size) this.#report(`${member.name} (pid ${member.child.pid}) serves`);
    this.#serve();
  }

  #gone(member: Member): void {
    if (!this.#members.has(member) || this.#isClosing) return;
    if (member.state === "starting" && ++this.#failedStarts >= HOPELESS)
      this.#fail(
        new CliError(EXIT.broken, "no worker of the demo can be started; the last one said:", [
          member.words.trim() || "nothing",
        ]),
      );
    if (member.state === "working" || member.state === "frozen") this.#report(`${member.name} has ended`);
    member.state = "killed";
    const timer = setTimeout(() => {
      this.#members.delete(member);
      if (!this.#isClosing) this.#add();
    }, REPLACE_MS);
    timer.unref();
  }

  #report(news: string): string {
    this.#options.onNews(news);
    return news;
  }
}

function ended(child: ChildProcess): Promise<void> {
  if (child.pid === undefined || child.exitCode !== null || child.signalCode !== null)
    return Promise.resolve();
  return new Promise((resolve) => {
    child.once("exit", () => resolve());
  });
}

/** The environment of workers: without variables that would lead them to another server. */
function environment(deliveries: string | null): NodeJS.ProcessEnv {
  const env = Object.fromEntries(
    Object.entries(process.env).filter(([name]) => !name.startsWith("RONDO_") && name !== "DEMO_DELIVERIES"),
  );
  return deliveries === null ? env : { ...env, DEMO_DELIVERIES: deliveries };
}
