/** `rondo start`: runs an engine node and its API until Ctrl-C or SIGTERM. It runs no user code. */
import { setFlagsFromString } from "node:v8";
import { untilOrphaned } from "../../compose/node-processes.ts";
import { EXIT, type ExitCode } from "../exit-code.ts";
import { printLine } from "../output/print.ts";
import { readConfig } from "../server/find-server.ts";
import { limitHeapGrowth } from "./heap-growth.ts";
import { type StartFlags, serve } from "./serve.ts";
import { Shutdown } from "./shutdown.ts";
import { nodesOf, startNodes } from "./start-nodes.ts";

/**
 * The most bytecode that V8 inlines into one function when it optimizes it; 920 by default. A server has many functions that are called
 * about equally often. With the default, their optimization takes a third of the CPU of the first minute; later the two are equally fast.
 */
const INLINED_MAX = 400;

/** Serves until Ctrl-C or SIGTERM. */
export async function start({
  nodes,
  ...options
}: StartFlags & { readonly nodes?: string }): Promise<ExitCode> {
  const count = nodes === undefined ? null : nodesOf(nodes);
  const loaded = await readConfig({ ...options });
  if (count !== null) return startNodes(loaded, options, count);
  setFlagsFromString(`--max-inlined-bytecode-size-cumulative=${INLINED_MAX}`);
  const endHeapLimit = limitHeapGrowth();
  const shutdown = new Shutdown();
  const stopWatch = untilOrphaned(() => shutdown.end());
  try {
    const server = await serve(loaded, options);
    process.send?.({ kind: "ready", url: server.url });
    await shutdown.asked;
    printLine("closing: open requests are finished; press Ctrl-C again to stop at once");
    await server.close();
    return EXIT.ok;
  } finally {
    endHeapLimit();
    stopWatch();
    shutdown.stop();
  }
}
