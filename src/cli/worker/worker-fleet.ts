/** `rondo worker --min --max`: a parent process that runs as many worker processes as the load needs. */
import { type ChildProcess, fork } from "node:child_process";
import { packageRoot } from "../../package-root.ts";
import { BackOff } from "../../std/back-off.ts";
import { systemRandom } from "../../std/random.ts";
import { EXIT, type ExitCode } from "../exit-code.ts";
import { printJson, printLine } from "../output/print.ts";
import { Shutdown } from "../start/shutdown.ts";
import type { WorkerFlags, WorkerSettings } from "./worker-flags.ts";

type FleetSettings = WorkerSettings & { readonly scale: { readonly min: number; readonly max: number } };

interface Member {
  readonly child: ChildProcess;
  readonly number: number;
  /** The load of the worker process; null until it serves. */
  load: Load | null;
  isLeaving: boolean;
}

/** Exit codes of a worker process after which a restart would not help. */
const HOPELESS: readonly number[] = [EXIT.usage, EXIT.notFound, EXIT.conflict, EXIT.unauthorised];

/** Runs worker processes until Ctrl-C or SIGTERM. */
export async function runFleet(
  files: readonly string[],
  flags: WorkerFlags,
  settings: FleetSettings,
): Promise<ExitCode> {
  const shutdown = new Shutdown();
  const fleet = new WorkerFleet(files, flags, settings, shutdown);
  const sampling = setInterval(() => fleet.sample(), settings.sampleMs);
  fleet.sample();
  try {
    await shutdown.asked;
    clearInterval(sampling);
    return await fleet.close();
  } finally {
    clearInterval(sampling);
    shutdown.stop();
  }
}

class WorkerFleet {
  readonly #args: readonly string[];
  readonly #flags: WorkerFlags;
  readonly #settings: FleetSettings;
  readonly #shutdown: Shutdown;
  readonly #policy: ScalePolicy;
  readonly #backOff = new BackOff({ random: systemRandom });
  readonly #members = new Set<Member>();
  #numbers = 0;
  /** No process is started before this time, because the last one died (back-off). */
  #notBefore = 0;
  #isClosing = false;
  #exit: ExitCode = EXIT.ok;
  #onEmpty: () => void = () => {};

  constructor(files: readonly string[], flags: WorkerFlags, settings: FleetSettings, shutdown: Shutdown) {
    this.#args = argumentsOf(files, flags, settings);
    this.#flags = flags;
    this.#settings = settings;
    this.#shutdown = shutdown;
    this.#policy = new ScalePolicy(settings.scale);
  }

  /** Measures the load of the worker processes, and adds or ends a process if needed. */
  sample(): void {
    if (this.#isClosing || Date.now() < this.#notBefore) return;
    const members = [...this.#members].filter(({ isLeaving }) => !isLeaving);
    for (let count = members.length; count < this.#settings.scale.min; count++) this.#add();
    // While a worker process is starting, no other process is added.
    if (members.length < this.#settings.scale.min || members.some(({ load }) => load === null)) return;
    const change = this.#policy.sample(members.map(({ load }) => load as Load));
    if (change === 1) this.#add();
    else if (change === -1) this.#end(leastBusy(members));
  }

  /** Ends all processes. Returns the exit code after the last one has ended. */
  async close(): Promise<ExitCode> {
    this.#isClosing = true;
    if (this.#members.size > 0) {
      const empty = new Promise<void>((resolve) => {
        this.#onEmpty = resolve;
      });
      for (const member of this.#members) if (!member.isLeaving) this.#end(member);
      await empty;
    }
    return this.#exit;
  }

  #add(): void {
    const number = ++this.#numbers;
    const name = `${this.#settings.name}-${number}`;
    const { token } = this.#flags;
    const child = fork(`${packageRoot()}bin/rondo.js`, ["worker", ...this.#args, "--name", name], {
      // The token is passed in the environment, because all users of the machine can see arguments.
      env: { ...process.env, ...(token === undefined ? {} : { RONDO_TOKEN: token }) },
    });
    const member: Member = { child, number, load: null, isLeaving: false };
    this.#members.add(member);
    child.on("message", (message) => {
      const { kind, held, capacity } = message as { kind?: string; held?: number; capacity?: number };
      if (kind === "load" && capacity !== undefined && capacity > 0)
        member.load = { held: held ?? 0, capacity };
      if (kind === "ready") this.#backOff.reset();
    });
    child.once("exit", (code, signal) => this.#gone(member, code, signal));
    child.once("error", () => this.#gone(member, null, null));
    this.#report("added", member);
  }

  #end(member: Member): void {
    member.isLeaving = true;
    member.child.kill("SIGTERM");
    this.#report("leaving", member);
  }

  #gone(member: Member, code: number | null, signal: NodeJS.Signals | null): void {
    if (!this.#members.delete(member)) return;
    this.#report("ended", member);
    if (!member.isLeaving && !this.#isClosing) {
      const isHopeless = member.load === null && code !== null && HOPELESS.includes(code);
      if (isHopeless) {
        this.#exit = code as ExitCode;
        this.#shutdown.end();
      } else {
        const ms = this.#backOff.next();
        this.#notBefore = Date.now() + ms;
        printLine(`rondo: worker process ${member.number} died (${signal ?? code}); another one is started`);
      }
    }
    if (this.#members.size === 0) this.#onEmpty();
  }

  #report(what: "added" | "leaving" | "ended", { child, number }: Member): void {
    const processes = [...this.#members].filter(({ isLeaving }) => !isLeaving).length;
    if (this.#flags.json) printJson({ kind: what, number, pid: child.pid ?? null, processes });
    else printLine(`rondo: worker process ${number} ${what}; ${processes} processes in all`);
  }
}

function leastBusy(members: readonly Member[]): Member {
  return members.reduce((least, member) =>
    (member.load?.held ?? 0) < (least.load?.held ?? 0) ? member : least,
  );
}

/** Returns the arguments of one worker process: those of the parent without the flags for the number of processes. */
function argumentsOf(files: readonly string[], flags: WorkerFlags, settings: WorkerSettings): string[] {
  const { url, store, socket, broker, prefix, spool, unsafeNoJail } = flags;
  const named = {
    url,
    store,
    socket,
    broker,
    prefix,
    spool,
    capacity: `${settings.capacity}`,
    grace: `${settings.graceMs}ms`,
    sample: `${settings.sampleMs}ms`,
  };
  const pairs = Object.entries(named).flatMap(([flag, value]) =>
    value === undefined ? [] : [`--${flag}`, value],
  );
  return [
    ...files,
    ...pairs,
    ...(unsafeNoJail ? ["--unsafe-no-jail"] : []),
    ...(flags.json ? ["--json"] : []),
  ];
}

/** The load of a worker process: running tasks and capacity. */
interface Load {
  readonly held: number;
  readonly capacity: number;
}

/** The number of samples of the load that are averaged. The load must be low for as many samples before a process is ended. */
const SAMPLES_UP = 3;
const SAMPLES_DOWN = 10;
const BUSY = 0.8;
/** A process is ended if the load of the remaining ones would then be at most this. */
const SPARE = 0.5;

export class ScalePolicy {
  readonly #min: number;
  readonly #max: number;
  #busy: number[] = [];
  #idle = 0;

  constructor({ min, max }: { min: number; max: number }) {
    this.#min = min;
    this.#max = max;
  }

  /** Takes a sample of the serving processes. Returns 1 to add a process, -1 to end one, otherwise 0. */
  sample(loads: readonly Load[]): -1 | 0 | 1 {
    const count = loads.length;
    if (count < this.#min) return 1;
    if (count > this.#max) return -1;
    const held = loads.reduce((sum, load) => sum + load.held, 0);
    const capacity = loads.reduce((sum, load) => sum + load.capacity, 0);
    this.#busy = [...this.#busy, capacity === 0 ? 0 : held / capacity].slice(-SAMPLES_UP);
    const average = this.#busy.reduce((sum, busy) => sum + busy, 0) / this.#busy.length;
    if (count < this.#max && this.#busy.length === SAMPLES_UP && average >= BUSY) return this.#decide(1);
    const without = count === 0 ? 0 : (capacity * (count - 1)) / count;
    const isSpare = count > this.#min && held <= without * SPARE;
    this.#idle = isSpare ? this.#idle + 1 : 0;
    return this.#idle >= SAMPLES_DOWN ? this.#decide(-1) : 0;
  }

  /** Clears the samples, so that the next decision is made with samples from after the change. */
  #decide(change: -1 | 1): -1 | 1 {
    this.#busy = [];
    this.#idle = 0;
    return change;
  }
}
