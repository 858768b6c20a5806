/** `rondo worker FILES --broker URL`: runs tasks and commands from the queues of a broker. */
import { scriptsOf } from "../../compose/compose.ts";
import { TopicRules } from "../../kernel/command/topic-rules.ts";
import { isBrokerUrl, showBroker } from "../../protocol/broker-address.ts";
import type { AnyWorkflow } from "../../sdk/workflow.ts";
import { systemClock } from "../../std/clock.ts";
import { systemRandom } from "../../std/random.ts";
import { RondoError } from "../../std/rejection.ts";
import { AmqpWorker, type AmqpWorkerOptions } from "../../worker/amqp/amqp-worker.ts";
import { loggedBy } from "../../worker/attempt-place.ts";
import { type HostedPart, withChildren } from "../../worker/handler-code.ts";
import { hasScripts } from "../../worker/has-scripts.ts";
import { chooseJail } from "../../worker/sandbox/jail-probe.ts";
import { CliError } from "../cli-error.ts";
import { EXIT, type ExitCode } from "../exit-code.ts";
import { printLog } from "../log-line.ts";
import { printJson } from "../output/print.ts";
import { Screen } from "../progress/screen.ts";
import { ProcessGuard } from "../run/guard-process.ts";
import { readConfig } from "../server/find-server.ts";
import { Shutdown } from "../start/shutdown.ts";
import { loadAll } from "./load-all.ts";
import { registerDefinitions } from "./register-definitions.ts";
import type { WorkerFlags, WorkerSettings } from "./worker-flags.ts";

type BrokerFlags = WorkerFlags & { readonly broker: string };

/** Runs the worker until Ctrl-C or SIGTERM. */
export async function runBrokerWorker(
  files: readonly string[],
  flags: BrokerFlags,
  settings: WorkerSettings,
): Promise<ExitCode> {
  const { broker, prefix, url, token, socket } = flags;
  checkUrl(broker);
  const { config } = await readConfig({
    ...(url === undefined ? {} : { url }),
    ...(token === undefined ? {} : { token }),
    ...(files.length === 0 ? {} : { files }),
  });
  const address = socket === undefined ? config.url : `unix:${socket}`;
  const addresses = address === null ? [] : address.split(",").map((one) => one.trim());
  if (config.files.length === 0 && addresses.length === 0)
    throw new CliError(EXIT.usage, "rondo worker needs files with workflows or topics", [
      "rondo worker flows.ts --broker amqp://..., or files: [...] in rondo.config.ts",
      "with --url, a worker without files runs scripts",
    ]);
  const screen = new Screen(process.stderr);
  const guard = new ProcessGuard(screen);
  const shutdown = new Shutdown((exit) => guard.leave(exit));
  // The parent process has ended, or it asks this process to end.
  process.once("disconnect", () => shutdown.end());
  try {
    const loaded = await loadAll(config.files);
    const workflows = withChildren(loaded.workflows);
    if (addresses.length > 0) {
      const note = (what: string): void => screen.note(what);
      const options = { isOver: shutdown.asked, note };
      if (!(await registerDefinitions({ addresses, token: config.token }, workflows, options)))
        return EXIT.ok;
    } else printUnregistered(screen, workflows);
    const rules = new TopicRules({ prefix: prefix ?? config.prefix, projects: {} });
    for (const { topic } of loaded.topics) {
      const refusal = rules.reserved(topic);
      if (refusal !== null) throw new RondoError(refusal);
    }
    const hosted = [...workflows, ...loaded.topics];
    const scripts = await scriptsFor(screen, { addresses, workflows, flags });
    await work({
      screen,
      guard,
      shutdown,
      settings,
      flags,
      hosted,
      scripts,
      prefix: prefix ?? config.prefix,
    });
    return EXIT.ok;
  } finally {
    shutdown.stop();
    guard.release();
  }
}

interface WorkParts {
  readonly screen: Screen;
  readonly guard: ProcessGuard;
  readonly shutdown: Shutdown;
  readonly settings: WorkerSettings;
  readonly flags: BrokerFlags;
  readonly hosted: readonly HostedPart[];
  readonly scripts: AmqpWorkerOptions["scripts"] | null;
  readonly prefix: string;
}

async function work(parts: WorkParts): Promise<void> {
  const { screen, guard, shutdown, settings, flags, hosted, scripts, prefix } = parts;
  const { json = false, broker } = flags;
  const worker = new AmqpWorker({
    url: broker,
    prefix,
    name: settings.name,
    capacity: settings.capacity,
    workflows: hosted,
    ...(scripts === null || scripts === undefined ? {} : { scripts }),
    ...(settings.spool === null ? {} : { spool: settings.spool }),
    // No server asks this worker about its attempts. So if the user chose a status port, it is for health checks, which may come from
    // anywhere.
    status: { port: settings.statusPort, ...(flags.statusPort === undefined ? { host: "127.0.0.1" } : {}) },
    clock: systemClock({ hold: true }),
    random: systemRandom,
    onLog: (grant, item, logged) => printLog(screen, loggedBy(grant, item, logged)),
    onTrouble: (what) => {
      if (json) printJson({ kind: "trouble", what });
      else if (what === null) screen.note("the broker is back");
      else screen.note(`the broker does not answer (${what}); the worker keeps its receipts and tries again`);
    },
    onReady: () => {
      const { name, capacity } = settings;
      const status = worker.url;
      if (json)
        printJson({
          kind: "registered",
          worker: name,
          capacity,
          workflows: hosted.map((part) => part.name),
          status,
        });
      else screen.print(`worker ${name} serves ${showBroker(broker)}, prefix ${prefix}`);
      process.send?.({ kind: "ready", worker: name });
    },
    onNote: (what) => screen.note(what),
    onBug: (thrown) => guard.stop("worker", thrown),
  });
  const reporting = setInterval(() => {
    if (process.connected) process.send?.({ kind: "load", held: worker.held, capacity: worker.capacity });
  }, settings.sampleMs);
  await Promise.race([shutdown.asked, worker.start().then(() => shutdown.asked)]);
  clearInterval(reporting);
  if (!json)
    screen.print("leaving: running tasks may finish, no new ones begin; press Ctrl-C again to stop at once");
  await worker.stop(settings.graceMs);
  if (json) printJson({ kind: "ended" });
}

function checkUrl(broker: string): void {
  if (isBrokerUrl(broker)) return;
  throw new CliError(
    EXIT.usage,
    `--broker ${broker}: is not the URL of a broker (amqp://... or amqps://...)`,
    ["--broker amqp://user:password@host:5672/vhost, or amqps://..."],
  );
}

/** Warns that the definitions are not registered at a server, so their workflows cannot be started yet. */
function printUnregistered(screen: Screen, workflows: readonly AnyWorkflow[]): void {
  if (workflows.length === 0) return;
  const names = workflows.map(({ name }) => name).join(", ");
  screen.note(
    `the definitions of ${names} are not registered: a worker over a broker needs --url for that. ` +
      "Name the server once with --url, or send the definitions with POST /v1/workflows",
  );
}

/**
 * Returns the options for scripts, with the servers from which the worker reads the code of their runs. If this worker cannot run
 * scripts, prints why and returns null.
 */
async function scriptsFor(
  screen: Screen,
  parts: {
    readonly addresses: readonly string[];
    readonly workflows: readonly AnyWorkflow[];
    readonly flags: BrokerFlags;
  },
): Promise<AmqpWorkerOptions["scripts"] | null> {
  const { addresses, workflows, flags } = parts;
  const needed = workflows.filter(({ definition }) => hasScripts(definition)).map(({ name }) => name);
  const refuse = (why: string): null => {
    const names = needed.length === 0 ? "" : ` of ${needed.join(", ")}`;
    if (needed.length > 0 || workflows.length === 0)
      screen.note(`this worker does not run the scripts${names}: ${why}`);
    return null;
  };
  if (addresses.length === 0)
    return refuse("the worker reads scripts from the server, so name the server with --url");
  const unsafeNoJail = flags.unsafeNoJail === true;
  try {
    await chooseJail({ unsafeNoJail });
  } catch (thrown) {
    if (!(thrown instanceof RondoError)) throw thrown;
    return refuse(thrown.message);
  }
  return { scripts: scriptsOf(unsafeNoJail), addresses };
}
