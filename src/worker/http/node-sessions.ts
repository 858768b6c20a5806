/**
 * The sessions of a worker at nodes. Drives the membership machine (membership.ts): performs its outputs and feeds the results
 * back to it.
 */
import type { Registered } from "../../protocol/worker-wire.ts";
import type { Clock } from "../../std/clock.ts";
import type { Random } from "../../std/random.ts";
import type { HeldAttempts } from "./held-attempts.ts";
import { FIRST, Membership } from "./membership.ts";
import type { MembershipInput, MembershipOptions, MembershipOutput, Route } from "./membership-io.ts";
import type { NodeSession } from "./node-session.ts";
import type { Refused } from "./server-problem.ts";

export interface SessionEvents {
  readonly onAnswered: (route: Route, nodes?: readonly string[]) => void;
  readonly onFailed: (route: Route, what: string) => void;
  readonly onForgotten: () => void;
}

export interface NodeSessionsOptions extends Pick<MembershipOptions, "addresses" | "own"> {
  readonly clock: Clock;
  readonly random: Random;
  readonly held: HeldAttempts;
  readonly worker: () => string | null;
  readonly open: (name: string, addresses: readonly string[], events: SessionEvents) => NodeSession;
  readonly onRegistered: (session: NodeSession, registered: Registered) => void;
  readonly onGone: (name: string) => void;
  readonly onTrouble: (what: string | null) => void;
  /** Called if every address refuses this worker and it was never registered, so its configuration must be wrong. */
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

  /** The session at the configured addresses, if there is one. */
  get first(): NodeSession | undefined {
    return this.get(FIRST);
  }

  /**
   * The number of sessions that share the worker's capacity: those in touch. The session at the worker's own node is left out,
   * because the worker claims nothing there.
   */
  get sharing(): number {
    const { own } = this.#options;
    let count = 0;
    for (const [id, { name }] of this.#sessions) if (name !== own && this.#machine.isInTouch(id)) count++;
    return count;
  }

  get isAway(): boolean {
    return this.#machine.isAway;
  }

  /** Whether the worker is registered at a node that accepts events. */
  get isRegistered(): boolean {
    return this.#machine.isRegistered;
  }

  isInTouch(session: NodeSession): boolean {
    for (const [id, one] of this.#sessions) if (one === session) return this.#machine.isInTouch(id);
    return false;
  }

  start(): void {
    this.#isStarted = true;
    this.#feed({ kind: "start" });
    for (const { claims } of this.all) claims.wake();
  }

  setNodes(urls: readonly string[]): void {
    this.#feed({ kind: "members", urls });
  }

  /**
   * Called when the worker's attempts may have moved to the node of this process, or away from it. Opens or ends the session at
   * that node.
   */
  updateOwn(): void {
    const { own, held } = this.#options;
    if (own !== null) this.#feed({ kind: "own", isNeeded: held.mayBeAt(own) });
  }

  /** Starts the search for the nodes of attempts whose node is not known, if there are any. */
  search(): void {
    if (this.#options.held.homeless.size > 0) this.#feed({ kind: "homeless" });
  }

  /** Called when events were acknowledged. The search for nodes then starts again with short pauses. */
  resetSearch(): void {
    this.#feed({ kind: "eased" });
  }

  /** Called when the worker's registration has changed. Registers the worker again at every node. */
  registerAgain(): void {
    for (const session of this.#sessions.keys()) this.#feed({ kind: "forgotten", session });
  }

  /** Ends all sessions and deregisters the worker. */
  async close(): Promise<void> {
    this.#isClosed = true;
    const sessions = this.all;
    this.#feed({ kind: "close" });
    this.#stopTimer?.();
    const worker = this.#options.worker();
    await Promise.all(sessions.map((session) => session.close({ worker })));
  }

  /** Feeds inputs to the membership machine one after the other, because performing an output may cause the next input. */
  #feed(input: MembershipInput): void {
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
      this.#feed({ kind: "tick" });
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
        this.#feed({ kind: "answered", session: id, route, ...(nodes === undefined ? {} : { nodes }) }),
      onFailed: (route, what) => this.#feed({ kind: "failed", session: id, route, what }),
      onForgotten: () => this.#feed({ kind: "forgotten", session: id }),
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
      this.#feed({ kind: "not-registered", session: id, request, what, isRefusal: refused !== null });
      return;
    }
    const { registered } = result;
    const wasReady = session.link.isConnected;
    this.#feed({ kind: "registered", session: id, request, nodes: registered.nodes ?? null });
    if (!wasReady && session.link.isConnected) this.#options.onRegistered(session, registered);
  }

  /** Asks every node about the attempts whose node is not known, and repeats that until each is found. */
  #show(): void {
    if (this.#options.held.homeless.size === 0) return;
    this.updateOwn();
    for (const { heartbeats } of this.all) heartbeats.beat();
    this.search();
  }
}
