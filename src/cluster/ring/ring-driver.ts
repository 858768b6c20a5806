/** Drives a `RingNode`: it posts the token, requests states, scans watched timers and notifies owners. The driver decides nothing. */
import { z } from "zod";
import { unreachable } from "../../std/assert.ts";
import type { Clock } from "../../std/clock.ts";
import { isRejection, type Rejection } from "../../std/rejection.ts";
import { toError } from "../../std/to-error.ts";
import { type Store, type StoredTimer, StoreFault } from "../../store/store.ts";
import type { PeerClient } from "../peers/peer-client.ts";
import type { PeerHook } from "../peers/peer-routes.ts";
import { checkBody } from "../peers/peer-wire.ts";
import type { RingInput, RingOutput, RingView } from "./io.ts";
import type { RingState } from "./ring-map.ts";
import { RingNode } from "./ring-node.ts";
import type { RingSettings } from "./settings.ts";
import type { Token } from "./token.ts";

/** The time limit for requests to other nodes. */
const ANSWER_MS = 1_000;

export interface RingDriverOptions {
  readonly url: string;
  readonly client: PeerClient;
  readonly store: Pick<Store, "scanTimers">;
  readonly clock: Clock;
  readonly settings?: Partial<RingSettings>;
  /** Called when the ring noticed a change that the store may know already. */
  readonly readMembers: () => void;
  readonly scanMail: (partitions: readonly number[]) => void;
  /** Called with overdue timers of this node's executions. Another node that watches them has reported them. */
  readonly timersDue: (timers: readonly StoredTimer[]) => void;
  readonly onFault: (fault: Error) => void;
}

export class RingDriver {
  readonly #options: RingDriverOptions;
  readonly #node: RingNode;
  #cancelWake: (() => void) | null = null;
  #isRunning = false;
  #hasEnded = false;
  /** How far the store's clock is ahead of this machine's clock. */
  #ahead = 0;

  constructor(options: RingDriverOptions) {
    this.#options = options;
    this.#node = new RingNode(options.url, options.clock.now(), options.settings);
  }

  /** Handlers of messages from other nodes, by name. */
  get hooks(): Readonly<Record<string, PeerHook>> {
    return {
      token: (body, from) => {
        const token = parseToken(body);
        if (isRejection(token)) return token;
        this.input({ kind: "token", from, token });
        return {};
      },
      state: () => this.#node.state(),
    };
  }

  input(input: RingInput): void {
    if (this.#hasEnded) return;
    if (input.kind === "members") this.#ahead = input.membership.now - this.#options.clock.now();
    this.#node.input(input, this.#now());
    if (!this.#isRunning) this.#run();
  }

  view(): RingView {
    return this.#node.view();
  }

  /** Stops. Sends a goodbye to the other nodes of the ring if that is possible without waiting. */
  stop(): void {
    this.input({ kind: "leaving" });
    this.#hasEnded = true;
    this.#cancelWake?.();
  }

  #now(): number {
    return this.#options.clock.now() + this.#ahead;
  }

  #run(): void {
    this.#isRunning = true;
    for (let outputs = this.#node.advance(this.#now()); outputs.length > 0; ) {
      for (const output of outputs) this.#perform(output);
      outputs = this.#node.advance(this.#now());
    }
    this.#isRunning = false;
    this.#cancelWake?.();
    const at = this.#node.nextWakeAt();
    if (at === Number.POSITIVE_INFINITY) return;
    this.#cancelWake = this.#options.clock.after(Math.max(1, Math.ceil(at - this.#now())), () => {
      if (!this.#hasEnded) this.#run();
    });
  }

  #perform(output: RingOutput): void {
    switch (output.kind) {
      case "post-token":
        return this.#track(this.#post(output));
      case "ask-state":
        return this.#track(this.#ask(output));
      case "read-members":
        return this.#options.readMembers();
      case "scan-mailbox":
        return this.#options.scanMail(output.partitions);
      case "scan-timers":
        return this.#track(this.#scan(output));
      case "timer-due":
        if (output.to === this.#options.url) return this.#options.timersDue(output.timers);
        if (output.to !== null) this.#track(this.#send(output.to, output.timers));
        return;
      default:
        return unreachable(output);
    }
  }

  async #post({ post, to, token }: Extract<RingOutput, { kind: "post-token" }>): Promise<void> {
    const { client, url } = this.#options;
    if (to === url) {
      this.input({ kind: "token-posted", post });
      return this.input({ kind: "token", from: url, token });
    }
    const { kind } = await client.call(to, "token", token, { timeoutMs: ANSWER_MS });
    this.input({ kind: kind === "answered" ? "token-posted" : "token-failed", post });
  }

  async #ask({ ask, to }: Extract<RingOutput, { kind: "ask-state" }>): Promise<void> {
    const answer = await this.#options.client.call<unknown>(to, "state", {}, { timeoutMs: ANSWER_MS });
    const state = answer.kind === "answered" ? parseRingState(answer.value) : null;
    this.input({ kind: "state", ask, state: state === null || isRejection(state) ? null : state });
  }

  async #scan({ partitions, until, max }: Extract<RingOutput, { kind: "scan-timers" }>): Promise<void> {
    try {
      const timers = await this.#options.store.scanTimers({ partitions, until, max });
      this.input({ kind: "timers-scanned", timers });
    } catch (thrown) {
      if (!(thrown instanceof StoreFault)) throw thrown;
      this.input({ kind: "timers-scanned", timers: null });
    }
  }

  async #send(to: string, timers: readonly StoredTimer[]): Promise<void> {
    await this.#options.client.call(to, "timer-due", { timers }, { timeoutMs: ANSWER_MS });
  }

  #track(work: Promise<void>): void {
    work.catch((thrown: unknown) => {
      if (!this.#hasEnded) this.#options.onFault(toError(thrown));
    });
  }
}

const MEMBERS_MAX = 1_000;
const ENTRIES_MAX = 10_000;

const count = z.number().int().min(0);
const url = z.string().min(1).max(2_000);
const name = z.string().min(1).max(1_000);
const timerName = z.object({ execution: name, timer: name });

const message = z.object({
  from: url,
  incarnation: z.string().max(200),
  number: count,
  urgent: z.boolean(),
  hops: count,
  hints: z.array(z.object({ partition: count, count })).max(ENTRIES_MAX),
  timers: z.array(timerName.extend({ due: z.number() })).max(ENTRIES_MAX),
  ended: z.array(timerName).max(ENTRIES_MAX),
  scan: z.boolean(),
  watchers: z.array(url).max(MEMBERS_MAX),
  deaths: z.array(z.object({ url, incarnation: z.string().max(200), by: url })).max(MEMBERS_MAX),
});

const tokenSchema: z.ZodType<Token> = z.object({
  v: z.literal(1),
  epoch: count,
  maker: url,
  number: count,
  members: z.array(url).max(MEMBERS_MAX),
  hash: z.string().max(200),
  maps: z.array(z.object({ url, hash: z.string().max(200) })).max(MEMBERS_MAX),
  parcels: z.array(message).max(MEMBERS_MAX),
});

const stateSchema: z.ZodType<RingState> = z.object({
  v: z.literal(1),
  asOf: z.number().int(),
  members: z.array(z.object({ url, incarnation: z.string().max(200) })).max(MEMBERS_MAX),
  owners: z.array(z.number().int().min(-1)).max(ENTRIES_MAX),
});

/** Checks messages from other nodes of the ring. */
export function parseToken(value: unknown): Token | Rejection {
  return checkBody(tokenSchema, value);
}

export function parseRingState(value: unknown): RingState | Rejection {
  return checkBody(stateSchema, value);
}
