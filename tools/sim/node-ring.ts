/**
 * A node's place in the ring of a simulated cluster: its `RingNode`, with tokens that get lost, late or duplicated, and timers
 * on clocks that are off. No safety depends on the ring; but without faults, all nodes must agree.
 */
import type { RingInput, RingOutput } from "../../src/cluster/ring/io.ts";
import type { RingState } from "../../src/cluster/ring/ring-map.ts";
import { RingNode } from "../../src/cluster/ring/ring-node.ts";
import type { RingSettings } from "../../src/cluster/ring/settings.ts";
import type { Token } from "../../src/cluster/ring/token.ts";
import type { Membership } from "../../src/store/cluster-store.ts";
import type { StoredTimer } from "../../src/store/store.ts";
import { Alarm } from "./alarm.ts";
import type { Process } from "./node-ownership.ts";

const RING: Partial<RingSettings> = {
  idleCycleMs: 500,
  busyCycleMs: 50,
  lostMs: 2_000,
  lostStaggerMs: 200,
  postMs: 300,
  askMs: 300,
  suspectMs: 1_500,
  messageTimersMax: 3,
  horizonMs: 1_000,
  timersMax: 3,
  rescanMs: 3_000,
  rescanMinMs: 300,
  graceMs: 200,
  repeatMs: 500,
  dueMax: 2,
  dueEveryMs: 50,
  readMembersMs: 200,
  leaseSlackMs: 100,
};
/** The time-out of an answer. */
const ANSWER_MS = 300;

/** The messages between the rings of two nodes. */
export type RingMessage =
  | { readonly kind: "token"; readonly token: Token }
  | { readonly kind: "state" }
  | { readonly kind: "timer-due"; readonly timers: readonly StoredTimer[] };

interface Around {
  /** Sends to a node by its name. `answered` is not called if the message or its answer is lost. */
  carry(to: string, message: RingMessage, answered: (answer: unknown) => void): void;
  readMembers(): void;
}

export class NodeRing {
  readonly #process: Process;
  readonly #around: Around;
  #node: RingNode;
  readonly #alarm: Alarm;
  #isRunning = false;
  /** How far the database's clock is ahead of this machine's. */
  #ahead = 0;

  constructor(process: Process, around: Around) {
    this.#process = process;
    this.#around = around;
    this.#alarm = new Alarm(process.later);
    this.#node = new RingNode(process.name, 0, RING);
  }

  /** A new process begins. */
  open(): void {
    this.#ahead = 0;
    this.#alarm.clear();
    this.#isRunning = false;
    this.#node = new RingNode(this.#process.name, this.#now(), RING);
  }

  members(membership: Membership): void {
    this.#ahead = membership.now - this.#process.clock();
    this.input({ kind: "members", membership });
  }

  input(input: RingInput): void {
    this.#node.input(input, this.#now());
    if (!this.#isRunning) this.#run();
  }

  /** The known members, and when the token was last seen. */
  // @plant token trusted for safety 4
  view(): { readonly hash: string; readonly tokenAgoMs: number } {
    const { hash, token } = this.#node.view();
    return {
      hash,
      // @plant token trusted for safety 5
      tokenAgoMs: token === null ? Number.POSITIVE_INFINITY : this.#now() - token.seenAt,
    };
  }

  /** Handles a message of another node; returns the answer. */
  receive(from: string, message: RingMessage): unknown {
    switch (message.kind) {
      case "token":
        this.input({ kind: "token", from, token: message.token });
        return {};
      case "state":
        return this.#node.state();
      case "timer-due":
        this.#process.toEngine({ kind: "timers-due", timers: message.timers });
        return {};
    }
  }

  #now(): number {
    return this.#process.clock() + this.#ahead;
  }

  #run(): void {
    const node = this.#node;
    this.#isRunning = true;
    for (let outputs = node.advance(this.#now()); outputs.length > 0; ) {
      for (const output of outputs) this.#perform(output);
      outputs = node.advance(this.#now());
    }
    this.#isRunning = false;
    this.#alarm.set({ at: node.nextWakeAt(), now: this.#now() }, () => this.#run());
  }

  #perform(output: RingOutput): void {
    const { world, tables, name, toEngine, random, later } = this.#process;
    switch (output.kind) {
      case "post-token": {
        const { post, to, token } = output;
        return this.#ask(to, { kind: "token", token }, (answer) =>
          this.input({ kind: answer === null ? "token-failed" : "token-posted", post }),
        );
      }
      case "ask-state":
        return this.#ask(output.to, { kind: "state" }, (answer) =>
          this.input({ kind: "state", ask: output.ask, state: answer as RingState | null }),
        );
      case "read-members":
        return this.#around.readMembers();
      case "scan-mailbox":
        return toEngine({ kind: "mail-stored" });
      case "scan-timers": {
        const timers = tables.scanTimers(output);
        const isLost = world.has("lost-replies") && random.chance(0.03);
        later(random.below(20), () => this.input({ kind: "timers-scanned", timers: isLost ? null : timers }));
        return;
      }
      case "timer-due":
        world.count("timer told by a watcher");
        if (output.to === name) toEngine({ kind: "timers-due", timers: output.timers });
        else if (output.to !== null)
          this.#around.carry(output.to, { kind: "timer-due", timers: output.timers }, () => {});
    }
  }

  /** Sends a message and calls `onAnswer` with its answer, or with null if the answer comes too late or not at all. */
  #ask(to: string, message: RingMessage, onAnswer: (answer: unknown) => void): void {
    let isOver = false;
    const node = this.#node;
    const end = (answer: unknown) => {
      if (isOver || this.#node !== node) return;
      isOver = true;
      onAnswer(answer);
    };
    this.#around.carry(to, message, end);
    this.#process.later(ANSWER_MS, () => end(null));
  }
}
