/**
 * Drives an `OwnershipNode` over a store: it performs the calls to the store, informs the engine, and waits (back-off) after faults. It
 * decides nothing itself.
 */
import { unreachable } from "../../std/assert.ts";
import { BackOff } from "../../std/back-off.ts";
import type { Clock } from "../../std/clock.ts";
import { monotonicMs } from "../../std/monotonic.ts";
import { type Random, systemRandom } from "../../std/random.ts";
import { toError } from "../../std/to-error.ts";
import { sleep } from "../../std/within.ts";
import type { ClusterStore, Membership } from "../../store/cluster-store.ts";
import { type Ownership, StoreFault } from "../../store/store.ts";
import { OwnershipNode } from "./ownership.ts";
import type { OwnershipInput, OwnershipOutput, OwnershipSettings, OwnershipView } from "./ownership-io.ts";

/** The back-off after a fault. It is much shorter than a lease, so that the lease can still be renewed after one fault. */
const RETRY = { minMs: 50, maxMs: 1_000 } as const;

export interface OwnedEngine {
  /**
   * The engine reads the data of these partitions and then begins to serve them. Partitions that are lost during the read are not served.
   */
  taken(owned: readonly Ownership[]): Promise<void> | void;
  /**
   * The engine stops serving these partitions. Resolves after everything for the next owner is written; false if the hand-over is not
   * clean.
   */
  yield(partitions: readonly number[]): Promise<boolean | void>;
  /** The engine drops these partitions at once, without writing anything. */
  lost(partitions: readonly number[], why: string): void;
}

export interface OwnershipOptions {
  /** The open store, whose hints this driver handles. */
  readonly store: Pick<ClusterStore, "renew" | "take" | "release" | "leave" | "onHint">;
  readonly engine: OwnedEngine;
  readonly clock: Pick<Clock, "after">;
  readonly monotonic?: () => number;
  readonly random?: Random;
  readonly settings?: Partial<OwnershipSettings>;
  /** Called with the members of the cluster each time the store returns them. */
  readonly onMembership?: (membership: Membership) => void;
  /** Called when the store hints at mail in these partitions. */
  readonly onMail?: (partitions: readonly number[]) => void;
  /** Called with true when the node's lease has begun, and with false when it may have ended. */
  readonly onGranting?: (mayGrant: boolean) => void;
  /** Called when a call to the store has failed; the call is repeated. */
  readonly onFault?: (fault: Error) => void;
  /** Called if the node cannot continue, because of a bug or of a store that must not be used. */
  readonly onStop?: (reason: Error) => void;
}

export class OwnershipDriver {
  readonly #options: OwnershipOptions;
  readonly #now: () => number;
  readonly #node: OwnershipNode;
  readonly #onEnd: (() => void)[] = [];
  #cancelWake: (() => void) | null = null;
  #isRunning = false;
  #hasEnded = false;
  readonly #backOff: BackOff;

  constructor(options: OwnershipOptions) {
    this.#options = options;
    this.#now = options.monotonic ?? monotonicMs;
    this.#node = new OwnershipNode(options.settings);
    this.#backOff = new BackOff({ ...RETRY, random: options.random ?? systemRandom });
  }

  start(): void {
    this.#options.store.onHint((hint) => {
      if (hint.kind === "members") this.refresh();
      else this.#options.onMail?.(hint.partitions);
    });
    this.#input({ kind: "tick" });
  }

  /** Hands over all partitions. Resolves when they are released, or lost. */
  leave(): Promise<void> {
    const ended = new Promise<void>((resolve) => {
      if (this.#hasEnded) resolve();
      else this.#onEnd.push(resolve);
    });
    this.#input({ kind: "leave" });
    return ended;
  }

  /** Stops without releasing any partition. */
  stop(): void {
    this.#end();
  }

  fenced(partitions: readonly number[]): void {
    this.#input({ kind: "fenced", partitions });
  }

  unreadable(partition: number): void {
    this.#input({ kind: "unreadable", partitions: [partition] });
  }

  /** Renews the lease soon, because members or partitions may have changed. */
  refresh(): void {
    this.#input({ kind: "hinted" });
  }

  mayAct(): boolean {
    return !this.#hasEnded && this.#node.mayAct(this.#now());
  }

  ownerOf(partition: number): string | null {
    return this.#node.ownerOf(partition);
  }

  view(): OwnershipView {
    return this.#node.view();
  }

  #input(input: OwnershipInput): void {
    if (this.#hasEnded) return;
    try {
      this.#node.input(input, this.#now());
      if (!this.#isRunning) this.#run();
    } catch (thrown) {
      this.#fail(thrown);
    }
  }

  /** Runs until the machine has no more output, because an output may at once cause another input. */
  #run(): void {
    this.#isRunning = true;
    try {
      for (;;) {
        const outputs = this.#node.advance(this.#now());
        if (outputs.length === 0) break;
        for (const output of outputs) this.#perform(output);
      }
    } finally {
      this.#isRunning = false;
    }
    this.#cancelWake?.();
    this.#cancelWake = null;
    if (this.#hasEnded) return;
    const at = this.#node.nextWakeAt();
    if (at === Number.POSITIVE_INFINITY) return;
    this.#cancelWake = this.#options.clock.after(Math.max(0, Math.ceil(at - this.#now())), () =>
      this.#input({ kind: "tick" }),
    );
  }

  #perform(output: OwnershipOutput): void {
    const { store, engine } = this.#options;
    switch (output.kind) {
      case "renew":
        return this.#call(() => this.#renew());
      case "take":
        return this.#call(async () => ({ kind: "taken", owned: await store.take(output.partitions) }));
      case "release":
        return this.#call(async () => {
          await store.release(output.partitions, { clean: output.clean });
          return { kind: "released" };
        });
      case "leave":
        return this.#call(async () => {
          await store.leave({ clean: false });
          return { kind: "has-left" };
        });
      case "yield":
        return this.#track(this.#yield(output));
      case "engine-taken":
        return this.#track(this.#begin(output.owned));
      case "engine-lost":
        return engine.lost(output.partitions, output.why);
      case "may-grant":
        return this.#options.onGranting?.(true);
      case "stop-granting":
        return this.#options.onGranting?.(false);
      case "left":
        return this.#end();
      default:
        return unreachable(output);
    }
  }

  async #renew(): Promise<OwnershipInput> {
    // The time is taken before the call to the store, so that the node assumes its lease to end early rather than late.
    const askedAt = this.#now();
    const membership = await this.#options.store.renew();
    if (!this.#hasEnded) this.#options.onMembership?.(membership);
    return { kind: "membership", membership, askedAt };
  }

  /** Lets the engine begin to serve partitions. If that fails for a partition, the node gives it up and takes it again. */
  async #begin(owned: readonly Ownership[]): Promise<void> {
    try {
      await this.#options.engine.taken(owned);
    } catch (thrown) {
      this.#reportFault(thrown);
      this.fenced(owned.map(({ partition }) => partition));
    }
  }

  async #yield({ yield: number, partitions }: Extract<OwnershipOutput, { kind: "yield" }>): Promise<void> {
    let isClean = false;
    try {
      isClean = (await this.#options.engine.yield(partitions)) !== false;
    } catch (thrown) {
      this.#reportFault(thrown);
    }
    this.#input({ kind: isClean ? "yielded" : "yield-failed", yield: number });
  }

  #call(call: () => Promise<OwnershipInput>): void {
    this.#track(this.#answer(call).then((input) => this.#input(input)));
  }

  /** Makes a call to the store and returns its answer as an input. After a fault, waits for the back-off before it returns. */
  async #answer(call: () => Promise<OwnershipInput>): Promise<OwnershipInput> {
    try {
      const input = await call();
      this.#backOff.reset();
      return input;
    } catch (thrown) {
      this.#reportFault(thrown);
      await sleep(this.#options.clock, this.#backOff.next());
      return { kind: "call-failed" };
    }
  }

  /** Reports temporary faults and rethrows everything else. */
  #reportFault(thrown: unknown): void {
    if (!(thrown instanceof StoreFault) || !thrown.retryable) throw thrown;
    if (!this.#hasEnded) this.#options.onFault?.(thrown);
  }

  #track(work: Promise<void>): void {
    work.catch((thrown: unknown) => this.#fail(thrown));
  }

  #fail(thrown: unknown): void {
    if (this.#hasEnded) return;
    const reason = toError(thrown);
    this.#end();
    const owned = this.#node.view().owned.map(({ partition }) => partition);
    if (owned.length > 0) this.#options.engine.lost(owned, reason.message);
    this.#options.onStop?.(reason);
  }

  #end(): void {
    this.#hasEnded = true;
    this.#cancelWake?.();
    this.#cancelWake = null;
    for (const resolve of this.#onEnd.splice(0)) resolve();
  }
}
