/** The sessions of a worker: does what the membership machine says (membership.ts), and tells it what came of it. */
import type { Registered } from "../../protocol/worker-wire.ts";
import type { Clock } from "../../std/clock.ts";
import type { Random } from "../../std/random.ts";
import type { HeldAttempts } from "./held-attempts.ts";
import { FIRST, Membership } from "./membership.ts";
import type { MembershipInput, MembershipOptions, MembershipOutput, Route } from "./membership-io.ts";
import type { NodeSession } from "./node-session.ts";
import type { Refused } from "./server-problem.ts";

/** What a session reports about itself. */
export interface SessionEvents {
  readonly onAnswered: (route: Route, nodes?: readonly string[]) => void;
  readonly onFailed: (route: Route, what: string) => void;
  readonly onForgotten: () => void;
}

export interface NodeSessionsOptions extends Pick<MembershipOptions, "addresses" | "own"> {
  readonly clock: Clock;
  readonly random: Random;
  readonly held: HeldAttempts;
  /** The id that this worker is registered under. */
  readonly worker: () => string | null;
  readonly open: (name: string, addresses: readonly string[], events: SessionEvents) => NodeSession;
  readonly onRegistered: (session: NodeSession, registered: Registered) => void;
  /** A node is gone, or out of touch: what it had may be elsewhere. */
  readonly onGone: (name: string) => void;
  /** No node is in touch (null: one is again). */
  readonly onTrouble: (what: string | null) => void;
  /** Every address refuses this worker, which was never registered: it is configured wrongly. */
  readonly onRefused: (why: Refused) => void;
  readonly onBug: (thrown: unknown) => void;
}

export class NodeSessions {
  readonly #options: NodeSessionsOptions;
  readonly #machine: Membership;
  readonly #sessions = new Map<number, NodeSession>();
  readonly #inputs: MembershipInput[] = [];
  #isRunning = false;
  #isStarted = false;
  #isClosed = false;
  #refusal: Refused | null = null;
  #stopTimer: (() => void) | null = null;
  #timerAt = Number.POSITIVE_INFINITY;

  constructor(options: NodeSessionsOptions) {
    this.#options = options;
    this.#machine = new Membership(options);
    for (const output of this.#machine.begin()) this.#perform(output);
  }

  get all(): readonly NodeSession[] {
    return [...this.#sessions.values()];
  }

  get(name: string): NodeSession | undefined {
    return this.all.find((session) => session.name === name);
  }

  /** The session at the addresses, while there is one. */
  get first(): NodeSession | undefined {
    return this.get(FIRST);
  }

  /** Sessions that share what the worker can take: those in touch. At its own node it takes nothing. */
  get sharing(): number {
    const { own } = this.#options;
    let count = 0;
    for (const [id, { name }] of this.#sessions) if (name !== own && this.#machine.isInTouch(id)) count++;
    return count;
  }

  /** None is in touch. */
  get isAway(): boolean {
    return this.#machine.isAway;
  }

  /** A node is there that would take what is said. */
  get isRegistered(): boolean {
    return this.#machine.isRegistered;
  }

  isInTouch(session: NodeSession): boolean {
    for (const [id, one] of this.#sessions) if (one === session) return this.#machine.isInTouch(id);
    return false;
  }

  /** Begins to register and to claim. */
  start(): void {
    this.#isStarted = true;
    this.#hear({ kind: "start" });
    for (const { claims } of this.all) claims.wake();
  }

  /** There are these nodes now, and no others. */
  become(urls: readonly string[]): void {
    this.#hear({ kind: "members", urls });
  }

  /** What the worker has may be at the node that this process is, or is not any more. */
  lookAtOwn(): void {
    const { own, held } = this.#options;
    if (own !== null) this.#hear({ kind: "own", isNeeded: held.mayBeAt(own) });
  }

  /** There may be attempts whose node is not known. */
  search(): void {
    if (this.#options.held.homeless.size > 0) this.#hear({ kind: "homeless" });
  }

  /** Something was acknowledged somewhere. */
  ease(): void {
    this.#hear({ kind: "eased" });
  }

  /** What the worker serves has changed: registers again at every node. */
  registerAgain(): void {
    for (const session of this.#sessions.keys()) this.#hear({ kind: "forgotten", session });
  }

  /** Ends all of them, with a goodbye. */
  async close(): Promise<void> {
    this.#isClosed = true;
    const sessions = this.all;
    this.#hear({ kind: "close" });
    this.#stopTimer?.();
    const worker = this.#options.worker();
    await Promise.all(sessions.map((session) => session.close({ worker })));
  }

  /** Inputs are taken one after another: performing an output may bring the next input. */
  #hear(input: MembershipInput): void {
    this.#inputs.push(input);
    if (this.#isRunning) return;
    this.#isRunning = true;
    try {
      for (let next = this.#inputs.shift(); next !== undefined; next = this.#inputs.shift())
        for (const output of this.#machine.input(this.#options.clock.now(), next)) this.#perform(output);
    } finally {
      this.#isRunning = false;
    }
    this.#setTimer();
  }

  #setTimer(): void {
    const { clock } = this.#options;
    const { dueAt } = this.#machine;
    if (dueAt === this.#timerAt) return;
    this.#stopTimer?.();
    this.#stopTimer = null;
    this.#timerAt = dueAt;
    if (dueAt === Number.POSITIVE_INFINITY) return;
    this.#stopTimer = clock.after(Math.max(0, dueAt - clock.now()), () => {
      this.#timerAt = Number.POSITIVE_INFINITY;
      this.#hear({ kind: "tick" });
    });
  }

  #perform(output: MembershipOutput): void {
    const { onGone, onTrouble, onRefused, onBug, worker } = this.#options;
    switch (output.kind) {
      case "open":
        return this.#open(output);
      case "end": {
        const session = this.#sessions.get(output.session);
        this.#sessions.delete(output.session);
        if (this.#isClosed) return;
        const isOwn = output.name === this.#options.own;
        const how = isOwn ? {} : { saysGoodbye: false, waitsForClaims: true };
        session?.close({ ...how, worker: worker() }).catch(onBug);
        return;
      }
      case "register":
        this.#register(output).catch(onBug);
        return;
      case "ready":
        return this.#sessions.get(output.session)?.ready(output.address);
      case "not-ready":
        return this.#sessions.get(output.session)?.link.notReady();
      case "gone":
        return onGone(output.name);
      case "trouble":
        return onTrouble(output.what);
      case "refused":
        if (this.#refusal !== null) onRefused(this.#refusal);
        return;
      case "show":
        return this.#show();
    }
  }

  #open({ session: id, name, addresses }: Extract<MembershipOutput, { kind: "open" }>): void {
    const session = this.#options.open(name, addresses, {
      onAnswered: (route, nodes) =>
        this.#hear({ kind: "answered", session: id, route, ...(nodes === undefined ? {} : { nodes }) }),
      onFailed: (route, what) => this.#hear({ kind: "failed", session: id, route, what }),
      onForgotten: () => this.#hear({ kind: "forgotten", session: id }),
    });
    this.#sessions.set(id, session);
    if (this.#isStarted) session.claims.wake();
  }

  async #register(asked: Extract<MembershipOutput, { kind: "register" }>): Promise<void> {
    const { session: id, request, address } = asked;
    const session = this.#sessions.get(id);
    if (session === undefined) return;
    const result = await session.link.register(address);
    if (result.kind === "failed") {
      const { what, refused } = result;
      this.#refusal = refused;
      session.link.failed();
      this.#hear({ kind: "not-registered", session: id, request, what, isRefusal: refused !== null });
      return;
    }
    const { registered } = result;
    const wasReady = session.link.isConnected;
    this.#hear({ kind: "registered", session: id, request, nodes: registered.nodes ?? null });
    if (!wasReady && session.link.isConnected) this.#options.onRegistered(session, registered);
  }

  /** Every node is shown what is looked for, again and again until it is found. */
  #show(): void {
    if (this.#options.held.homeless.size === 0) return;
    this.lookAtOwn();
    for (const { heartbeats } of this.all) heartbeats.beat();
    this.search();
  }
}
