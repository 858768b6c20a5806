/**
 * A node of a cluster in its own process, which runs loads on request. Both sides are here: the parent starts the bench's main
 * module again with `--node` and the URL of the database.
 */
import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { openRondo } from "../../../src/index.ts";
import { inParallel } from "../in-parallel.ts";
import { chain as realChain, fan as realFan, taskOf } from "../real/workflows.ts";
import { NODE_FLAGS } from "../scenario.ts";
import { fan, steps } from "../workflows.ts";

/**
 * Executions of five steps, `atATime` of them at a time; or one execution with this many tasks. `isReal`: with the workflows of
 * `--real`.
 */
export type Load =
  | { readonly kind: "chains"; readonly executions: number; readonly atATime: number; readonly isReal?: true }
  | { readonly kind: "tasks"; readonly tasks: number; readonly isReal?: true };

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

  get pid(): number | undefined {
    return this.#child.pid;
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
  rondo.serve(fan, steps, realFan, realChain);
  process.once("SIGTERM", () => {
    void rondo.close().then(() => process.exit(0));
  });
  process.on("message", (load: Load) => {
    const one = (n: number): Promise<unknown> =>
      load.isReal ? rondo.run(realChain, taskOf(n)) : rondo.run(steps, { n });
    const run =
      load.kind === "tasks"
        ? rondo.run(load.isReal ? realFan : fan, { tasks: load.tasks })
        : inParallel(load.executions, load.atATime, one);
    void run.then(() => process.send?.("ran"));
  });
  process.send?.("ready");
}
