/** A cluster under test: several nodes over one store in memory. The nodes can die, freeze, leave and come back. */
import type { ClusterNotice, ClusterOutput } from "../engine/driver-options.ts";
import { decodeEntry } from "../kernel/journal/journal-entry.ts";
import { type PublicEvent, publicEvent } from "../kernel/journal/public-event.ts";
import type { ExecutionHandle, StartOptions } from "../sdk/handle.ts";
import type { AnyWorkflow, WorkflowInput, WorkflowOutput } from "../sdk/workflow.ts";
import type { SeededRandom } from "../std/random.ts";
import { RondoError, reject } from "../std/rejection.ts";
import { toError } from "../std/to-error.ts";
import type { HostedTopic, HostedWorkflow } from "../worker/handler-code.ts";
import { ClusterRun, type ClusterRunOptions } from "./cluster-run.ts";
import type { NodeFaults, SimulatedFaults } from "./simulated-faults.ts";
import { orCrashed, TestHandle } from "./test-handle.ts";
import { PASS_MAX_MS } from "./test-rondo.ts";
import { VirtualClock } from "./virtual-clock.ts";

/** The number of partitions of the shared store. */
export const TEST_PARTITIONS = 8;
/** How long a frozen node stops; it is longer than a lease. */
const PAUSE_MS = 25_000;
/** How long the test waits for a node that leaves. */
const LEAVE_MS = 30_000;
/** If nothing but lease renewals happens for longer than this, the time is skipped. */
const SKIP_MS = 60_000;

export interface TestClusterOptions
  extends Omit<
    ClusterRunOptions,
    "clock" | "url" | "onMessage" | "ownerOf" | "onStop" | "faults" | "random"
  > {
  readonly nodes: number;
  readonly random: SeededRandom;
  /** The faults to simulate; null for none. */
  readonly faults: SimulatedFaults | null;
}

export class TestCluster implements AsyncDisposable {
  readonly #options: TestClusterOptions;
  readonly #workflows: readonly (HostedWorkflow | HostedTopic)[];
  readonly #clock = new VirtualClock(() => this.#lives.some((run) => run?.isAtWork === true));
  /** The current run of each node; null while the node is down. */
  readonly #lives: (ClusterRun | null)[];
  #begins = 0;
  #stopped: Error | null = null;
  #isOver = false;

  private constructor(workflows: readonly (HostedWorkflow | HostedTopic)[], options: TestClusterOptions) {
    this.#workflows = workflows;
    this.#options = options;
    this.#lives = Array.from({ length: options.nodes }, () => null);
  }

  static async open(
    workflows: readonly (HostedWorkflow | HostedTopic)[],
    options: TestClusterOptions,
  ): Promise<TestCluster> {
    const cluster = new TestCluster(workflows, options);
    for (let node = 0; node < options.nodes; node++) await cluster.#begin(node);
    return cluster;
  }

  get clock(): VirtualClock {
    return this.#clock;
  }

  async start<W extends AnyWorkflow>(
    workflow: W,
    input: WorkflowInput<NoInfer<W>>,
    options: StartOptions & { readonly id: string },
  ): Promise<ExecutionHandle<WorkflowOutput<W>>> {
    const run = await this.#lifeFor(options.id);
    await orCrashed(run.rondo.start<W>(workflow, input, options), run);
    return this.execution<W>(options.id);
  }

  execution<W extends AnyWorkflow = AnyWorkflow>(id: string): ExecutionHandle<WorkflowOutput<W>> {
    return new TestHandle<WorkflowOutput<W>>(id, () => this.#lifeFor(id));
  }

  /** Reads the journal as committed so far, with every task in it. */
  events(id: string): PublicEvent[] {
    return this.#options.tables
      .readJournal({ execution: id, from: 1 })
      .flatMap(decodeEntry)
      .map((recorded) => publicEvent(id, recorded, "full"));
  }

  /** Resolves when nothing more happens unless time moves. */
  async settle(): Promise<void> {
    await this.#clock.settle();
    if (this.#stopped !== null) throw new Error("an engine stopped", { cause: this.#stopped });
  }

  /** Moves virtual time to the next timer. Returns false if there is none. */
  async pass(): Promise<boolean> {
    const clock = this.#clock;
    const idleMs = clock.nextOwnAt - clock.now();
    const isSteady = this.#isSteady;
    if (isSteady && idleMs > SKIP_MS) clock.skip(Math.min(idleMs, PASS_MAX_MS) - SKIP_MS / 2);
    await clock.advance(Math.max(1, clock.nextAt - clock.now()));
    return !isSteady || idleMs !== Number.POSITIVE_INFINITY;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#isOver = true;
    const lives = this.#lives.filter((run) => run !== null);
    const closed = Promise.all(lives.map((run) => run.rondo.close({ graceMs: 0 })));
    await Promise.race([closed, this.#clock.advance(LEAVE_MS)]);
    for (const run of lives) run.kill();
  }

  /** Whether a healthy node owns every partition and no task runs, so that only lease renewals are left to do. */
  get #isSteady(): boolean {
    const { tables } = this.#options;
    const well = new Set(this.#lives.flatMap((run) => (run?.isWell === true ? [run.incarnation] : [])));
    for (let partition = 0; partition < TEST_PARTITIONS; partition++)
      if (!well.has(tables.ownerOf(partition))) return false;
    return !this.#lives.some((run) => run?.isAtWork === true);
  }

  /** Returns the run of the node that owns the execution, as far as is known. Otherwise it returns any node that is up. */
  async #lifeFor(execution: string): Promise<ClusterRun> {
    const up = this.#lives.filter((run) => run?.isUp === true) as ClusterRun[];
    const clusterRun = up.find((one) => one.owns(execution)) ?? up[0];
    if (clusterRun === undefined)
      throw new RondoError(reject("not_ready", "no node is up", { hint: "ask again" }));
    return clusterRun;
  }

  async #begin(node: number): Promise<void> {
    if (this.#isOver || this.#lives[node]?.isUp === true) return;
    const { nodes: _, faults, random, ...options } = this.#options;
    let run: ClusterRun | null = null;
    const own: NodeFaults = {
      crash: () => this.#end(node, run),
      pause: () => run?.freeze(PAUSE_MS),
      leave: () => this.#leave(node, run),
    };
    run = await ClusterRun.begin(
      {
        ...options,
        random: random.child(`life ${++this.#begins}`),
        url: `node-${node}`,
        clock: this.#clock,
        onMessage: (output) => this.#pass(output, node),
        ownerOf: (execution) => this.#lives.find((one) => one?.owns(execution) === true)?.engine ?? null,
        onStop: (reason) => {
          this.#stopped ??= reason;
        },
        ...(faults === null ? {} : { faults: faults.of(own) }),
      },
      this.#workflows,
    );
    this.#lives[node] = run;
  }

  /** Kills a node, and starts it again after a while. */
  #end(node: number, run: ClusterRun | null): void {
    if (run === null || !run.isUp) return;
    run.kill();
    if (this.#lives[node] === run) this.#lives[node] = null;
    const ms = this.#options.random.pick([1, 2_000, 20_000]);
    this.#clock.after(ms, () => {
      this.#begin(node).catch((thrown: unknown) => {
        this.#stopped ??= toError(thrown);
      });
    });
  }

  #leave(node: number, run: ClusterRun | null): void {
    if (run === null) return;
    const end = () => this.#end(node, run);
    run.leave().then(end, end);
    // A node that leaves waits for its handlers, which may run for long. After this time it is killed.
    this.#clock.after(LEAVE_MS, end);
  }

  /** Delivers a message of one node to the other nodes, one millisecond later. */
  #pass(output: ClusterOutput, from: number): void {
    const self = this.#lives[from]?.incarnation ?? "";
    const send = (incarnation: string | null, word: ClusterNotice) => {
      const to = this.#lives.find((run) => run?.isUp === true && run.incarnation === incarnation);
      if (incarnation !== null) this.#clock.after(1, () => to?.receive(word));
    };
    switch (output.kind) {
      case "ask-permits": {
        const { partition, asks } = output;
        const declares = output.declares === true ? [partition] : [];
        return send(this.#options.tables.ownerOf(partition), {
          kind: "permits-asked",
          node: self,
          asks,
          declares,
        });
      }
      case "grant-permits":
        return send(output.node, { kind: "permits-granted", grants: output.grants });
      case "call-permits":
        return send(output.node, { kind: "permits-called", partitions: output.partitions });
      default:
        return;
    }
  }
}
