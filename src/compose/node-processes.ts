/**
 * Engine nodes in processes of their own, over one database.
 * 1. Each process sends `{ kind: "ready", url }` over its channel when it serves. A process that is given options gets them as its
 *    first message.
 * 2. A process that dies is started again, with a growing delay. Another node takes its partitions meanwhile.
 * 3. A process whose parent is gone closes as after SIGTERM (`untilOrphaned`).
 * 4. Lines on stderr are passed on with the name of the node.
 */
import { type ChildProcess, fork } from "node:child_process";
import { createInterface } from "node:readline";
import { BackOff } from "../std/back-off.ts";
import { systemClock } from "../std/clock.ts";
import { showDuration } from "../std/duration.ts";
import { systemRandom } from "../std/random.ts";

/** How a node is started. */
export interface NodeSpec {
  /** The name of the node in messages, such as `node-2`. */
  readonly name: string;
  readonly file: string | URL;
  readonly args: readonly string[];
  /** The environment; if it is missing, that of this process. */
  readonly env?: NodeJS.ProcessEnv;
  /** The options that the process gets as its first message. */
  readonly options?: unknown;
}

/** A process of a node that could not be started. */
export class NodeFailed extends Error {
  override readonly name = "NodeFailed";
  /** The exit code of the process; null if a signal ended it. */
  readonly code: number | null;

  constructor(node: string, how: string, code: number | null) {
    super(`${node} did not start: its process ended (${how})`);
    this.code = code;
  }
}

interface Running {
  readonly child: ChildProcess;
  readonly ended: Promise<void>;
}

const RETRY = { minMs: 500, maxMs: 30_000, random: systemRandom } as const;
/** How long processes may take to close before they are killed. */
const CLOSE_MS = 60_000;

export class NodeProcesses {
  readonly #onLine: (line: string) => void;
  readonly #running = new Map<string, Running>();
  readonly #clock = systemClock({ hold: true });
  /** Functions that cancel the restarts that wait. */
  readonly #waiting = new Set<() => void>();
  #isClosing = false;

  private constructor(onLine: (line: string) => void) {
    this.#onLine = onLine;
  }

  /**
   * Starts the nodes; resolves with their addresses when all of them serve.
   *
   * @throws NodeFailed if one of them ends before that; the others are closed
   */
  static async start(
    specs: readonly NodeSpec[],
    onLine: (line: string) => void,
  ): Promise<{ readonly nodes: NodeProcesses; readonly urls: readonly string[] }> {
    const nodes = new NodeProcesses(onLine);
    try {
      const urls = await Promise.all(specs.map((spec) => nodes.#start(spec, new BackOff(RETRY))));
      return { nodes, urls };
    } catch (thrown) {
      await nodes.close();
      throw thrown;
    }
  }

  /** The process ids of the nodes that run, by name. */
  get pids(): ReadonlyMap<string, number> {
    return new Map([...this.#running].map(([name, { child }]) => [name, child.pid as number]));
  }

  /** Closes all nodes gracefully, and resolves when their processes have ended. */
  async close(): Promise<void> {
    this.#isClosing = true;
    for (const cancel of this.#waiting) cancel();
    const running = [...this.#running.values()];
    for (const { child } of running) child.kill("SIGTERM");
    const cancelKill = this.#clock.after(CLOSE_MS, () => this.#kill());
    await Promise.all(running.map(({ ended }) => ended));
    cancelKill();
  }

  #kill(): void {
    for (const { child } of this.#running.values()) child.kill("SIGKILL");
  }

  /** Starts a node; resolves with its address, or throws if the process ends before it serves. */
  #start(spec: NodeSpec, backOff: BackOff): Promise<string> {
    const { name, file, args, env, options } = spec;
    const child = fork(file, [...args], {
      stdio: ["ignore", "ignore", "pipe", "ipc"],
      ...(env === undefined ? {} : { env }),
      serialization: "advanced",
    });
    if (options !== undefined) child.send({ kind: "open", options });
    createInterface({ input: child.stderr as NodeJS.ReadableStream }).on("line", (line) =>
      this.#onLine(`${name}: ${line}`),
    );
    return new Promise((resolve, fail) => {
      let isReady = false;
      child.on("message", (message) => {
        const { kind, url } = message as { readonly kind?: unknown; readonly url?: string };
        if (kind !== "ready" || url === undefined) return;
        isReady = true;
        backOff.reset();
        resolve(url);
      });
      const ended = new Promise<void>((end) => {
        const onEnd = (code: number | null, signal: NodeJS.Signals | null): void => {
          if (this.#running.get(name)?.child === child) this.#running.delete(name);
          end();
          const how = String(signal ?? code ?? "the process could not be started");
          if (isReady && !this.#isClosing) this.#restart(spec, backOff, how);
          else fail(new NodeFailed(name, how, code));
        };
        child.once("exit", onEnd);
        child.once("error", () => onEnd(null, null));
      });
      this.#running.set(name, { child, ended });
    });
  }

  #restart(spec: NodeSpec, backOff: BackOff, how: string): void {
    const ms = backOff.next();
    this.#onLine(`${spec.name} died (${how}); it is started again in ${showDuration(ms)}`);
    const cancel = this.#clock.after(ms, () => {
      this.#waiting.delete(cancel);
      this.#start(spec, backOff).then(
        (url) => this.#onLine(`${spec.name} serves again at ${url}`),
        (thrown: unknown) => {
          if (!this.#isClosing) this.#restart(spec, backOff, (thrown as Error).message);
        },
      );
    });
    this.#waiting.add(cancel);
  }
}

/** Calls `close` when the parent of this process is gone. Returns a function that stops watching the parent. */
export function untilOrphaned(close: () => void): () => void {
  process.on("disconnect", close);
  return () => process.off("disconnect", close);
}
