/**
 * A node of a cluster in its own process, which runs loads on request. Both sides are here: the parent starts the bench's main
 * module again with `--node` and the URL of the database.
 */
import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { openRondo } from "../../../src/index.ts";
import { inParallel } from "../in-parallel.ts";
import { NODE_FLAGS } from "../scenario.ts";
import { fan, steps } from "../workflows.ts";

/** Executions of five steps, `atATime` of them at a time; or one execution with this many tasks. */
export type Load =
  | { readonly kind: "chains"; readonly executions: number; readonly atATime: number }
  | { readonly kind: "tasks"; readonly tasks: number };

export class NodeProcess {
  readonly #child: ChildProcess;

  private constructor(child: ChildProcess) {
    this.#child = child;
  }

  /** Resolves when the node is open. It may have no partitions yet. */
  static async start(url: string): Promise<NodeProcess> {
    const child = fork(process.argv[1] as string, ["--node", url], {
      execArgv: [...NODE_FLAGS],
      stdio: ["ignore", 2, 2, "ipc"],
    });
    const node = new NodeProcess(child);
    await node.#answer();
    return node;
  }

  /** Resolves when the load is done. */
  async run(load: Load): Promise<void> {
    const answer = this.#answer();
    this.#child.send(load);
    await answer;
  }

  async stop(): Promise<void> {
    if (this.#child.exitCode !== null || this.#child.signalCode !== null) return;
    const gone = once(this.#child, "exit");
    this.#child.kill("SIGTERM");
    await gone;
  }

  async #answer(): Promise<void> {
    const ended = new AbortController();
    const { signal } = ended;
    try {
      const said = once(this.#child, "message", { signal });
      const gone = once(this.#child, "exit", { signal }).then(() => {
        throw new Error("a node's process has ended");
      });
      await Promise.race([said, gone]);
    } finally {
      ended.abort();
    }
  }
}

/** The child's side: serves the workflows, and runs the loads that it receives. */
export async function runNode(url: string): Promise<void> {
  const rondo = await openRondo({ store: url });
  rondo.serve(fan, steps);
  process.once("SIGTERM", () => {
    void rondo.close().then(() => process.exit(0));
  });
  process.on("message", (load: Load) => {
    const run =
      load.kind === "tasks"
        ? rondo.run(fan, { tasks: load.tasks })
        : inParallel(load.executions, load.atATime, (n) => rondo.run(steps, { n }));
    void run.then(() => process.send?.("ran"));
  });
  process.send?.("ready");
}
