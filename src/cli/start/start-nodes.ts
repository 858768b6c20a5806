/** `rondo start --nodes N`: a parent process that runs N nodes over one database, each in a process of its own. */
import { isShared } from "../../compose/compose.ts";
import { NodeFailed, NodeProcesses, type NodeSpec } from "../../compose/node-processes.ts";
import type { LoadedConfig } from "../../config/load-config.ts";
import { packageRoot } from "../../package-root.ts";
import { withoutPassword } from "../../std/hide-passwords.ts";
import { CliError } from "../cli-error.ts";
import { EXIT, type ExitCode } from "../exit-code.ts";
import { print, printJson, printLine } from "../output/print.ts";
import type { StartFlags } from "./serve.ts";
import { Shutdown } from "./shutdown.ts";

const NODES_MAX = 64;

/** Parses the number of nodes. */
export function nodesOf(text: string): number {
  const nodes = Number(text);
  if (Number.isInteger(nodes) && nodes >= 1 && nodes <= NODES_MAX) return nodes;
  throw new CliError(EXIT.usage, `--nodes takes a number from 1 to ${NODES_MAX}, not "${text}"`);
}

/** Serves with several nodes until Ctrl-C or SIGTERM. */
export async function startNodes(
  { config }: LoadedConfig,
  options: StartFlags,
  count: number,
): Promise<ExitCode> {
  if (!isShared(config.store))
    throw new CliError(
      EXIT.usage,
      `--nodes needs a PostgreSQL database: only one process can open ${config.store}`,
      [
        "to run several nodes over one database: rondo start --nodes 4 --store postgres://...",
        "to serve this store by one process, leave out --nodes",
      ],
    );
  const shutdown = new Shutdown();
  try {
    const specs = Array.from({ length: count }, (_, i) => specOf(i, config, options));
    const { nodes, urls } = await start(specs);
    const isAsked = shutdown.asked.then(() => true);
    if (options.json) printJson({ url: urls[0], urls, pids: [...nodes.pids.values()], socket: null });
    else {
      if (!(process.stdout.isTTY && process.stderr.isTTY)) print(urls.join(","));
      printLine(`rondo serves ${withoutPassword(config.store)} with ${count} nodes at ${urls.join(", ")}`);
    }
    await isAsked;
    printLine("closing the nodes: open requests are finished; press Ctrl-C again to stop at once");
    await nodes.close();
    return EXIT.ok;
  } finally {
    shutdown.stop();
  }
}

async function start(specs: readonly NodeSpec[]): ReturnType<typeof NodeProcesses.start> {
  try {
    return await NodeProcesses.start(specs, (line) => printLine(`rondo: ${line}`));
  } catch (thrown) {
    if (!(thrown instanceof NodeFailed)) throw thrown;
    const exits: readonly (number | null)[] = Object.values(EXIT);
    const exit = exits.includes(thrown.code) ? (thrown.code as ExitCode) : EXIT.broken;
    throw new CliError(exit === EXIT.ok ? EXIT.broken : exit, thrown.message, [], { cause: thrown });
  }
}

/** Returns the settings of the node with index `i`. Its port and its advertised port are those of the first node plus `i`. */
function specOf(i: number, { port, advertise }: LoadedConfig["config"], options: StartFlags): NodeSpec {
  const { store, host, broker } = options;
  const given = Object.entries({ store, host, broker }).flatMap(([flag, value]) =>
    value === undefined ? [] : [`--${flag}`, value],
  );
  return {
    name: `node-${i + 1}`,
    file: `${packageRoot()}bin/rondo.js`,
    args: ["start", ...given, "--port", String(port === 0 ? 0 : port + i), "--json"],
    ...(advertise === null ? {} : { env: { ...process.env, RONDO_ADVERTISE: shifted(advertise, i) } }),
  };
}

/** Returns the URL with its port increased by `by`. */
function shifted(url: string, by: number): string {
  const at = new URL(url);
  const standard = at.protocol === "https:" ? 443 : 80;
  at.port = String((at.port === "" ? standard : Number(at.port)) + by);
  return at.origin;
}
