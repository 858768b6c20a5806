/**
 * `rondo worker FILES`: registers the workflows of the files with a server and runs their tasks in this process, and scripts if the
 * sandbox works. With --broker it takes tasks from a broker (broker-worker.ts). With --min or --max this process runs no tasks itself,
 * but starts and ends worker processes.
 */
import { dirname, relative } from "node:path";
import { scriptsOf } from "../../compose/compose.ts";
import { readManifest } from "../../package-root.ts";
import type { AnyWorkflow } from "../../sdk/workflow.ts";
import { systemClock } from "../../std/clock.ts";
import { systemRandom } from "../../std/random.ts";
import { RondoError } from "../../std/rejection.ts";
import { loggedBy } from "../../worker/attempt-place.ts";
import { type HostedTopic, withChildren } from "../../worker/handler-code.ts";
import { hasScripts } from "../../worker/has-scripts.ts";
import { RemoteWorker, type RemoteWorkerOptions } from "../../worker/http/remote-worker.ts";
import { makeWorkerId } from "../../worker/http/worker-lane.ts";
import { chooseJail } from "../../worker/sandbox/jail-probe.ts";
import { CliError } from "../cli-error.ts";
import { EXIT, type ExitCode } from "../exit-code.ts";
import { printLog } from "../log-line.ts";
import { printJson } from "../output/print.ts";
import { Screen } from "../progress/screen.ts";
import { ProcessGuard } from "../run/guard-process.ts";
import { Shutdown } from "../start/shutdown.ts";
import { loadAll } from "./load-all.ts";
import { findAddresses, registerDefinitions, type ServerAddresses } from "./register-definitions.ts";
import { readWorkerFlags, type WorkerFlags, type WorkerSettings } from "./worker-flags.ts";

/** Runs the worker until Ctrl-C or SIGTERM. */
export async function runWorker(files: readonly string[], flags: WorkerFlags): Promise<ExitCode> {
  const settings = readWorkerFlags(flags);
  if (settings.scale !== null) {
    const { runFleet } = await import("./worker-fleet.ts");
    return runFleet(files, flags, { ...settings, scale: settings.scale });
  }
  if (flags.broker !== undefined) {
    const { runBrokerWorker } = await import("./broker-worker.ts");
    return runBrokerWorker(files, { ...flags, broker: flags.broker }, settings);
  }
  if (flags.prefix !== undefined)
    throw new CliError(EXIT.usage, "--prefix is for --broker", [
      "a worker over a broker needs its URL: --broker amqp://...",
    ]);
  const { addresses, token, wanted } = await findAddresses(files, flags);
  const screen = new Screen(process.stderr);
  if (wanted.length === 0)
    screen.print(
      ["rondo:", "yellow"],
      " no files are given, so this worker runs scripts only; for handlers: rondo worker flows.ts",
    );
  const guard = new ProcessGuard(screen);
  const shutdown = new Shutdown((exit) => guard.leave(exit));
  // The parent process has ended, or it asks this process to end.
  process.once("disconnect", () => shutdown.end());
  try {
    const loaded = await loadAll(wanted);
    const workflows = withChildren(loaded.workflows);
    for (const line of smallCapacityLines(workflows, settings.capacity)) screen.note(line);
    const host = new WorkerHost({
      screen,
      guard,
      shutdown,
      settings,
      flags,
      workflows,
      topics: loaded.topics,
      server: { addresses, token },
    });
    const isThere = await registerDefinitions({ addresses, token }, workflows, {
      isOver: shutdown.asked,
      note: (what) => screen.note(what),
    });
    if (isThere) await host.run();
    return EXIT.ok;
  } finally {
    shutdown.stop();
    guard.release();
  }
}

interface HostParts {
  readonly screen: Screen;
  readonly guard: ProcessGuard;
  readonly shutdown: Shutdown;
  readonly settings: WorkerSettings;
  readonly flags: WorkerFlags;
  readonly workflows: readonly AnyWorkflow[];
  readonly topics: readonly HostedTopic[];
  readonly server: ServerAddresses;
}

/** Runs this process as a worker. It serves handlers at once, and scripts after the sandbox was checked. */
class WorkerHost {
  readonly #parts: HostParts;
  readonly #workers: RemoteWorker[] = [];
  /**
   * The common beginning of two worker ids. Handlers and scripts are registered as two workers; their ids show that they are one process.
   */
  readonly #id: string;
  #isReady = false;
  /** How many of the two workers in this process (handlers, scripts) have lost the connection to the server. */
  #away = 0;
  #isLeaving = false;

  constructor(parts: HostParts) {
    this.#parts = parts;
    this.#id = makeWorkerId({ name: parts.settings.name, clock: systemClock(), random: systemRandom });
  }

  async run(): Promise<void> {
    const { screen, shutdown, settings, workflows, topics, flags } = this.#parts;
    const hasCode = topics.length > 0 || workflows.some(({ handlers }) => handlers.length > 0);
    const started = Promise.all([
      hasCode ? this.#start({ ...this.#options(true), workflows: [...workflows, ...topics] }) : null,
      this.#startScripts(!hasCode),
    ]);
    const reporting = setInterval(() => this.#reportLoad(), settings.sampleMs);
    await Promise.race([shutdown.asked, started.then(() => shutdown.asked)]);
    this.#isLeaving = true;
    clearInterval(reporting);
    if (!flags.json)
      screen.print(
        "leaving: running tasks may finish, no new ones begin; press Ctrl-C again to stop at once",
      );
    await Promise.all(this.#workers.map((worker) => worker.stop(settings.graceMs)));
    await started;
    if (flags.json) printJson({ kind: "ended" });
  }

  /** Serves scripts if the sandbox works. Otherwise prints why this worker runs no scripts. */
  async #startScripts(isAll: boolean): Promise<void> {
    const { screen, flags, settings, workflows } = this.#parts;
    const unsafeNoJail = flags.unsafeNoJail === true;
    try {
      await chooseJail({ unsafeNoJail });
    } catch (thrown) {
      if (!(thrown instanceof RondoError)) throw thrown;
      // A worker without files that cannot run scripts has nothing to do, so the error is thrown.
      if (isAll) throw thrown;
      const isNeeded = workflows.some(({ definition }) => hasScripts(definition));
      screen.print(
        [isNeeded ? "✗" : "rondo:", isNeeded ? "red" : "yellow"],
        ` this worker does not run scripts: ${thrown.message}`,
      );
      return;
    }
    if (this.#isLeaving) return;
    if (unsafeNoJail) screen.print(["rondo:", "yellow"], " scripts may run without the outer sandbox");
    await this.#start({
      ...this.#options(isAll),
      ...(isAll ? {} : { name: `${settings.name}-scripts`, worker: `${this.#id}-scripts` }),
      workflows: [],
      scripts: scriptsOf(unsafeNoJail),
      statusPort: isAll ? settings.statusPort : 0,
    });
  }

  async #start(options: RemoteWorkerOptions): Promise<void> {
    const worker = new RemoteWorker(options);
    this.#workers.push(worker);
    await worker.start();
  }

  /**
   * Makes the options of one of the two workers in this process, for handlers or for scripts. With `isMain`, this worker reports that the
   * process serves.
   */
  #options(isMain: boolean): Omit<RemoteWorkerOptions, "workflows"> {
    const { screen, guard, settings, server, shutdown } = this.#parts;
    return {
      addresses: server.addresses,
      ...(server.token === null ? {} : { token: server.token }),
      name: settings.name,
      worker: this.#id,
      capacity: settings.capacity,
      spool: settings.spool,
      statusPort: settings.statusPort,
      version: readManifest().version,
      clock: systemClock({ hold: true }),
      random: systemRandom,
      onLog: (grant, item, logged) => printLog(screen, loggedBy(grant, item, logged)),
      onTrouble: (what) => this.#troubled(what),
      onRegistered: (worker) => this.#registered(worker, isMain),
      onRefused: ({ status, message }) => {
        screen.print(["✗", "red"], ` no server accepts this worker (${status}): ${message}`);
        screen.print("  ", refusalHint(status));
        guard.leave(status === 404 ? EXIT.notFound : status === 422 ? EXIT.usage : EXIT.unauthorised);
      },
      onDrain: () => shutdown.end(),
      onDamagedSpool: ({ path, lines }) =>
        screen.note(
          `a spool file is damaged: ${lines} of its lines cannot be read, and the reports in them are lost unless their tasks run again; ` +
            `the reports that can be read are sent, and the damaged file is kept as ${path}`,
        ),
      onDropped: (attempt, why) =>
        screen.note(`the server refused the report of the attempt ${attempt}: ${why.message}`),
      onBug: (thrown) => guard.stop("worker", thrown),
    };
  }

  /** Prints one line when the server stops answering, and one when it answers again, even if both handlers and scripts notice it. */
  #troubled(what: string | null): void {
    const { screen, flags } = this.#parts;
    if (flags.json) printJson({ kind: "trouble", what });
    this.#away += what === null ? -1 : 1;
    if (flags.json || this.#away !== (what === null ? 0 : 1)) return;
    const says =
      what === null
        ? "the server is back"
        : `the server does not answer (${what}); the worker keeps its receipts and tries again`;
    screen.note(says);
  }

  #registered(worker: string, isMain: boolean): void {
    const { screen, flags, settings, workflows, topics, server } = this.#parts;
    const { capacity } = settings;
    if (flags.json)
      printJson({ kind: "registered", worker, capacity, workflows: workflows.map(({ name }) => name) });
    if (this.#isReady || !isMain) return;
    this.#isReady = true;
    const names = [...workflows, ...topics].map(({ name }) => name);
    const what = names.length === 0 ? "scripts" : names.join(", ");
    if (!flags.json)
      screen.print(`worker ${worker} serves ${what} at ${server.addresses.map(shown).join(", ")}`);
    process.send?.({ kind: "ready", worker });
  }

  /** Reports the load to the parent process: that of handlers or of scripts, whichever is higher. */
  #reportLoad(): void {
    const [busiest] = this.#workers
      .map(({ held, capacity }) => ({ kind: "load", held, capacity }))
      .sort((a, b) => b.held / b.capacity - a.held / a.capacity);
    if (busiest !== undefined && process.connected) process.send?.(busiest);
  }
}

/** Hints for the user if every address refuses to register the worker. */
function refusalHint(status: number): string {
  if (status === 404) return "check --url (RONDO_URL): the address is not that of a Rondo server";
  if (status === 422) return "check --name and the names of the handlers";
  return "check --token (RONDO_TOKEN): it must be valid and have the role worker or admin";
}

/** Returns the address of a server for messages. For a socket, it is the store in whose directory the socket is. */
function shown(address: string): string {
  return address.startsWith("unix:")
    ? `file:${relative(process.cwd(), dirname(address.slice(5))) || "."}`
    : address;
}

interface Batched {
  readonly phases?: readonly {
    readonly name: string;
    readonly handlers?: Readonly<Record<string, { readonly use?: string; readonly batch?: number }>>;
  }[];
}

/** Returns warnings about handlers whose `batch` is larger than the worker's capacity. */
export function smallCapacityLines(
  workflows: readonly { readonly definition: unknown }[],
  capacity: number,
): string[] {
  return workflows.flatMap(({ definition }) =>
    ((definition as Batched).phases ?? []).flatMap(({ name, handlers = {} }) =>
      Object.entries(handlers).flatMap(([handler, { use = `${name}/${handler}`, batch = 1 }]) =>
        batch <= capacity
          ? []
          : [
              `${use} wants batches of ${batch} tasks, but this worker takes ${capacity} tasks at a time: its batches have at most ${capacity} (to allow more: --capacity ${batch})`,
            ],
      ),
    ),
  );
}
