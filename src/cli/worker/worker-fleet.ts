/**
 * `rondo worker --min --max`: a parent that keeps worker processes, adds one while they are busy and ends one while
 * they are not. One that is ended gets SIGTERM, so it loses nothing; one that dies is replaced, later each time.
 */
import { type ChildProcess, fork } from "node:child_process";
import { packageRoot } from "../../package-root.ts";
import { BackOff } from "../../std/back-off.ts";
import { systemRandom } from "../../std/random.ts";
import { EXIT, type ExitCode } from "../exit-code.ts";
import { printJson, printLine } from "../output/print.ts";
import { Shutdown } from "../start/shutdown.ts";
import { type Load, ScalePolicy } from "./scale-policy.ts";
import type { WorkerFlags, WorkerSettings } from "./worker-flags.ts";

type FleetSettings = WorkerSettings & { readonly scale: { readonly min: number; readonly max: number } };

interface Member {
  readonly child: ChildProcess;
  readonly number: number;
  /** Null: it does not serve yet. */
  load: Load | null;
  isLeaving: boolean;
}

/** Exit codes that another start would end with too. */
const HOPELESS: readonly number[] = [EXIT.usage, EXIT.notFound, EXIT.conflict, EXIT.unauthorised];

/** Keeps processes until it is told to end. */
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
  /** Not before then is another started: the last one died. */
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

  /** Looks how busy they are, and adds or ends one if need be. */
  sample(): void {
    if (this.#isClosing || Date.now() < this.#notBefore) return;
    const members = [...this.#members].filter(({ isLeaving }) => !isLeaving);
    for (let count = members.length; count < this.#settings.scale.min; count++) this.#add();
    // One that starts is not judged yet, and none is added beside it.
    if (members.length < this.#settings.scale.min || members.some(({ load }) => load === null)) return;
    const change = this.#policy.sample(members.map(({ load }) => load as Load));
    if (change === 1) this.#add();
    else if (change === -1) this.#end(leastBusy(members));
  }

  /** Ends all of them; resolves with the exit code when the last has gone. */
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
    const child = fork(`${packageRoot}bin/rondo.js`, ["worker", ...this.#args, "--name", name], {
      // Not among the arguments, which everybody on the machine can see.
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
    this.#tell("added", member);
  }

  #end(member: Member): void {
    member.isLeaving = true;
    member.child.kill("SIGTERM");
    this.#tell("leaving", member);
  }

  #gone(member: Member, code: number | null, signal: NodeJS.Signals | null): void {
    if (!this.#members.delete(member)) return;
    this.#tell("ended", member);
    if (!member.isLeaving && !this.#isClosing) {
      const isHopeless = member.load === null && code !== null && HOPELESS.includes(code);
      if (isHopeless) {
        this.#exit = code as ExitCode;
        this.#shutdown.end();
      } else {
        const ms = this.#backOff.next();
        this.#notBefore = Date.now() + ms;
        printLine(`rondo: worker process ${member.number} died (${signal ?? code}); another is started`);
      }
    }
    if (this.#members.size === 0) this.#onEmpty();
  }

  #tell(what: "added" | "leaving" | "ended", { child, number }: Member): void {
    const processes = [...this.#members].filter(({ isLeaving }) => !isLeaving).length;
    if (this.#flags.json) printJson({ kind: what, number, pid: child.pid ?? null, processes });
    else printLine(`rondo: worker process ${number} ${what}; ${processes} in all`);
  }
}

function leastBusy(members: readonly Member[]): Member {
  return members.reduce((least, member) =>
    (member.load?.held ?? 0) < (least.load?.held ?? 0) ? member : least,
  );
}

/** The arguments of one process: those of all of them but the ones about their number. */
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
