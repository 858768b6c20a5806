/** One run of a node in a cluster under test: an engine with its worker over a shared store, and the partitions that it owns. */
import { OwnershipDriver } from "../cluster/ownership/ownership-driver.ts";
import { Engine } from "../engine/driver.ts";
import type { ClusterNotice, ClusterOutput } from "../engine/driver-options.ts";
import { membersOf } from "../engine/limits/quota-exchange.ts";
import { Rondo } from "../rondo/rondo.ts";
import { decorate } from "../std/decorate.ts";
import { toError } from "../std/to-error.ts";
import { MemoryClusterStore } from "../store/memory/memory-cluster-store.ts";
import { withTriggerIndex } from "../triggers/trigger-index.ts";
import type { HostedTopic, HostedWorkflow } from "../worker/handler-code.ts";
import { KillableProcess } from "./killable-process.ts";
import { type ProcessRunOptions, withFaults } from "./process-run.ts";
import type { VirtualClock } from "./virtual-clock.ts";

export interface ClusterRunOptions extends Omit<ProcessRunOptions, "clock"> {
  /** The node's name in the cluster. */
  readonly url: string;
  readonly clock: VirtualClock;
  /** Called with each message that the node sends to other nodes. */
  readonly onMessage: (output: ClusterOutput) => void;
  /** Returns the engine of the node that owns an execution, as far as is known; null if no node does. */
  readonly ownerOf: (execution: string) => Engine | null;
}

export class ClusterRun {
  readonly rondo: Rondo;
  readonly #engine: Engine;
  readonly #ownership: OwnershipDriver;
  readonly #process: KillableProcess;

  private constructor(parts: {
    rondo: Rondo;
    engine: Engine;
    ownership: OwnershipDriver;
    process: KillableProcess;
  }) {
    this.rondo = parts.rondo;
    this.#engine = parts.engine;
    this.#ownership = parts.ownership;
    this.#process = parts.process;
  }

  static async begin(
    options: ClusterRunOptions,
    workflows: readonly (HostedWorkflow | HostedTopic)[],
  ): Promise<ClusterRun> {
    const { tables, random, capacity, settings, scripts, url, onLog, onStop, onMessage: onSay } = options;
    const process = new KillableProcess(options.clock);
    const clock = process.clock(options.clock);
    const { steady } = options.clock;
    const shared = new MemoryClusterStore(tables, { url, clock: steady, random });
    const store = process.store(withFaults(shared, options.faults));
    let ownership: OwnershipDriver | null = null;
    const engine = await Engine.open({
      store,
      clock,
      settings,
      postOps: options.postOps.performer(store, clock),
      onStop,
      onCluster: (output) => {
        if (output.kind === "fenced") ownership?.fenced(output.partitions);
        else onSay(output);
      },
      mayAct: () => ownership?.mayAct() === true,
    });
    const { cluster } = engine;
    ownership = new OwnershipDriver({
      store,
      engine: {
        taken: (owned) => cluster.taken(owned),
        yield: (partitions) => cluster.yield(partitions),
        lost: (partitions) => cluster.notify({ kind: "lost", partitions }),
      },
      clock: process.clock(steady),
      monotonic: () => steady.now(),
      random,
      onMembership: (membership) => {
        cluster.notify({ kind: "members", ...membersOf(membership) });
        cluster.notify({ kind: "mail-stored" });
      },
      onMail: () => cluster.notify({ kind: "mail-stored" }),
      onStop,
    });
    const rondo = new Rondo({
      engine: forwarding(engine, options.ownerOf),
      store: withTriggerIndex(store),
      clock,
      random,
      capacity,
      scripts,
      middleware: [...(options.middleware ?? [])],
      onLog,
      onBug: (thrown) => onStop(toError(thrown)),
    });
    rondo.serve(...workflows);
    ownership.start();
    return new ClusterRun({ rondo, engine, ownership, process });
  }

  /** Resolves when this run of the node has ended. */
  get ended(): KillableProcess["ended"] {
    return this.#process.ended;
  }

  get isUp(): boolean {
    return this.#process.isOn;
  }

  /** Whether the node runs, is not frozen, and is a member of the cluster. */
  get isWell(): boolean {
    return this.isUp && !this.#process.isFrozen && this.#ownership.mayAct();
  }

  /** The name of this run of the node in the store. */
  get incarnation(): string | null {
    return this.#ownership.view().incarnation;
  }

  get isAtWork(): boolean {
    return this.isUp && this.#engine.openLeases > 0;
  }

  /** The engine of the node, to which other nodes forward requests. */
  get engine(): Engine {
    return this.#engine;
  }

  /** Whether the node owns the execution, as far as it knows. */
  owns(execution: string): boolean {
    return this.isUp && this.#engine.isOwn(execution);
  }

  /** Delivers a message of another node. */
  receive(notice: ClusterNotice): void {
    if (this.isUp) this.#engine.cluster.notify(notice);
  }

  /** Stops the process for a while, as SIGSTOP does. */
  freeze(ms: number): void {
    this.#process.freeze(ms);
  }

  /** Leaves the cluster in good order, as after SIGTERM: hands over its partitions. */
  leave(): Promise<void> {
    return this.#ownership.leave();
  }

  /** Kills the process, as `kill -9` does. */
  kill(): void {
    this.#process.kill();
    this.#ownership.stop();
  }
}

/** Forwards requests to the owner of an execution, as the nodes of a cluster do. */
function forwarding(engine: Engine, ownerOf: ClusterRunOptions["ownerOf"]): Engine {
  const at = (execution: string): Engine =>
    engine.isOwn(execution) ? engine : (ownerOf(execution) ?? engine);
  return decorate(engine, {
    send: (execution, message, start) => at(execution).send(execution, message, start),
    inspect: (execution, attempt) => at(execution).inspect(execution, attempt),
    watch: (execution, progress) => at(execution).watch(execution, progress),
  });
}
