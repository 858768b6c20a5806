/**
 * Decides at which nodes a worker has sessions. It is a deterministic machine: inputs and the time go in, outputs come out. It
 * has no clock, no promise and no I/O; `NodeSessions` is its driver, and the simulator drives it too. A session is "in touch"
 * if it is registered and its last claim did not fail.
 * 1. The worker begins at its configured addresses (the session FIRST): it registers at all of them at once, and uses the first
 *    one that answers. An address that registered the worker and then failed it is tried after the others.
 * 2. A node that answers may name the nodes of its cluster. The worker has a session at each of them. If a node only names
 *    itself, and the other nodes in touch do not name it, it has stalled or has lost its lease; the worker leaves it.
 * 3. A session in touch ends only if a session at a named node is in touch. So contradicting, empty or stale lists of nodes
 *    never cost the worker its last session.
 * 4. If no session is in touch, the configured addresses are tried again, for as long as it takes. A stalled node is noticed by
 *    its claims: the driver always has a claim open at each session, and claims are short (claim-loop.ts).
 * 5. If the node of an attempt is not known, the worker asks every node about the attempt, at increasing intervals.
 * Invariant, checked after every input: a started worker with addresses that is not closed has a session, and each session is
 * registered, is being registered, or has its next try scheduled.
 */
import { assert } from "../../std/assert.ts";
import { BackOff } from "../../std/back-off.ts";
import type { MembershipInput, MembershipOptions, MembershipOutput } from "./membership-io.ts";

/** The name of the session at the configured addresses. */
export const FIRST = "first";
/** The longest wait between two rounds of registration. */
const ROUND_MAX_MS = 3_000;
/** The extra delay for addresses that registered the worker and then failed it. The other addresses are tried first. */
const STAGGER_MS = 1_000;
/** The wait before the next try of a registration, if there is another address to try. */
const RETRY_MS = 100;
/** If no session is in touch for this time, the configured addresses are tried again. */
const AWAY_MS = 1_000;
/** If a node answers this many times that it does not know the worker, without an answered claim in between, it counts as failed. */
const FORGETS_MAX = 3;
const NEVER = Number.POSITIVE_INFINITY;

export class Membership {
  readonly #options: MembershipOptions;
  readonly #sessions = new Map<number, MemberSession>();
  /** Addresses that registered the worker and then failed it. An answered claim removes an address from this set. */
  readonly #broken = new Set<string>();
  readonly #showBackOff: BackOff;
  #out: MembershipOutput[] = [];
  #sessionNumber = 0;
  #requestNumber = 0;
  #isStarted = false;
  #isClosed = false;
  #isAway = false;
  #wasRegistered = false;
  /** When the configured addresses are tried again; Infinity while a session is in touch, or while they are being tried. */
  #firstAt = NEVER;
  #showAt = NEVER;
  #what = "no node answers";

  constructor(options: MembershipOptions) {
    this.#options = options;
    this.#showBackOff = new BackOff({ random: options.random });
    if (options.addresses.length > 0) this.#open(FIRST, options.addresses);
  }

  /** The outputs of the constructor, which the driver performs before the first input. */
  begin(): readonly MembershipOutput[] {
    return this.#drain();
  }

  input(now: number, input: MembershipInput): readonly MembershipOutput[] {
    if (this.#isClosed) return [];
    this.#handle(now, input);
    if (!this.#isClosed) {
      this.#reconcile(now);
      this.#checkAway(now);
      this.#check();
    }
    return this.#drain();
  }

  /** When the next `tick` is due; Infinity if none is. */
  get dueAt(): number {
    if (this.#isClosed) return NEVER;
    let due = Math.min(this.#firstAt, this.#showAt);
    for (const { tryAt } of this.#sessions.values()) due = Math.min(due, tryAt);
    return due;
  }

  get isAway(): boolean {
    return this.#isAway;
  }

  /** Whether this session is registered and its last claim did not fail. */
  isInTouch(session: number): boolean {
    const found = this.#sessions.get(session);
    return found !== undefined && isInTouch(found);
  }

  /** Whether any session is registered. */
  get isRegistered(): boolean {
    return [...this.#sessions.values()].some(({ address }) => address !== null);
  }

  /** The addresses of the nodes at which this worker is registered, and where its last claim did not fail. */
  get inTouch(): readonly string[] {
    return [...this.#sessions.values()].filter(isInTouch).map(({ address }) => address as string);
  }

  #handle(now: number, input: MembershipInput): void {
    switch (input.kind) {
      case "start":
        this.#isStarted = true;
        for (const session of this.#sessions.values()) session.tryAt = now;
        return this.#tick(now);
      case "registered":
        return this.#registered(input);
      case "not-registered":
        return this.#notRegistered(now, input);
      case "answered":
        return this.#answered(input);
      case "failed":
        return this.#failed(now, input);
      case "forgotten":
        return this.#forgotten(now, input.session);
      case "members":
        return this.#members(now, input.urls);
      case "own":
        return this.#own(now, input.isNeeded);
      case "homeless":
        if (this.#showAt === NEVER) this.#showAt = now + this.#showBackOff.next();
        return;
      case "eased":
        return this.#showBackOff.reset();
      case "tick":
        return this.#tick(now);
      case "close":
        // @plant failed claim ends the worker 2
        return this.#close();
    }
  }

  #close(): void {
    this.#isClosed = true;
    for (const { id, name } of this.#sessions.values()) this.#out.push({ kind: "end", session: id, name });
    this.#sessions.clear();
  }

  #registered(input: Extract<MembershipInput, { kind: "registered" }>): void {
    const session = this.#sessions.get(input.session);
    const address = session?.requests.get(input.request);
    // The answer comes too late: another address answered first, or the session has ended.
    if (session === undefined || address === undefined) return;
    session.requests.clear();
    session.round = [];
    session.tryAt = NEVER;
    session.address = address;
    // The last failed claim was sent to another address, so it does not count against this one.
    if (address !== session.lastAddress) session.claimsFail = false;
    session.lastAddress = address;
    session.hasFailed = false;
    session.nodes = input.nodes;
    this.#wasRegistered = true;
    this.#out.push({ kind: "ready", session: session.id, address });
  }

  #notRegistered(now: number, input: Extract<MembershipInput, { kind: "not-registered" }>): void {
    const session = this.#sessions.get(input.session);
    const address = session?.requests.get(input.request);
    if (session === undefined || address === undefined) return;
    session.requests.delete(input.request);
    if (input.isRefusal) session.refusals.add(address);
    if (session.requests.size > 0) return;
    if (session.round.length > 0) return this.#tryMore(session, now);
    if (!session.hasFailed && session.name !== FIRST) this.#out.push({ kind: "gone", name: session.name });
    session.hasFailed = true;
    this.#what = input.what;
    // @plant failed registration not tried again
    session.tryAt = now + session.backOff.next();
    if (!this.#wasRegistered && session.refusals.size === session.addresses.length)
      this.#out.push({ kind: "refused", what: input.what });
  }

  #answered(input: Extract<MembershipInput, { kind: "answered" }>): void {
    const session = this.#sessions.get(input.session);
    if (session === undefined) return;
    if (input.route === "claim") {
      if (session.address !== null) this.#broken.delete(session.address);
      session.claimsFail = false;
      session.forgets = 0;
    }
    if (!session.claimsFail) session.backOff.reset();
    if (input.nodes !== undefined) session.nodes = input.nodes;
  }

  #failed(now: number, { session: id, route, what }: Extract<MembershipInput, { kind: "failed" }>): void {
    const session = this.#sessions.get(id);
    if (session === undefined) return;
    if (route === "claim")
      // @plant failed claim ends the worker
      session.claimsFail = true;
    if (session.address === null) return;
    this.#what = what;
    session.hasFailed = true;
    this.#unready(session, now + this.#distrust(session, session.address));
    if (session.name !== FIRST) this.#out.push({ kind: "gone", name: session.name });
  }

  #forgotten(now: number, id: number): void {
    const session = this.#sessions.get(id);
    if (session === undefined || session.address === null) return;
    const isFirst = session.forgets++ === 0;
    // The server is useless if it registers the worker, but then repeatedly answers that it does not know the worker.
    const isUseless = session.forgets > FORGETS_MAX;
    if (isUseless) session.claimsFail = true;
    const waitMs = isUseless
      ? this.#distrust(session, session.address)
      : isFirst
        ? 0
        : session.backOff.next();
    this.#unready(session, now + waitMs);
    this.#tick(now);
  }

  #members(now: number, urls: readonly string[]): void {
    if (this.#options.addresses.length > 0) return;
    for (const url of urls) if (this.#named(url) === undefined) this.#open(url, [url], now);
    const { own } = this.#options;
    for (const session of [...this.#sessions.values()])
      if (session.name !== own && !urls.includes(session.name)) this.#end(session);
  }

  #own(now: number, isNeeded: boolean): void {
    const { own } = this.#options;
    if (own === null) return;
    const session = this.#named(own);
    if (session === undefined && isNeeded) this.#open(own, [own], now);
    if (session === undefined || isNeeded) return;
    this.#sessions.delete(session.id);
    this.#out.push({ kind: "end", session: session.id, name: own });
  }

  #tick(now: number): void {
    if (!this.#isStarted) return;
    if (this.#firstAt <= now) {
      this.#firstAt = NEVER;
      this.#open(FIRST, this.#options.addresses, now);
    }
    for (const session of this.#sessions.values()) {
      if (session.tryAt > now) continue;
      if (session.round.length === 0) this.#beginRound(session);
      this.#tryMore(session, now);
    }
    if (this.#showAt <= now) {
      this.#showAt = NEVER;
      this.#out.push({ kind: "show" });
    }
  }

  #open(name: string, addresses: readonly string[], tryAt = NEVER): void {
    const id = ++this.#sessionNumber;
    this.#sessions.set(id, {
      ...{
        id,
        name,
        addresses,
        address: null,
        lastAddress: null,
        requests: new Map<number, string>(),
        round: [],
      },
      ...{
        tryAt,
        backOff: new BackOff({ random: this.#options.random, maxMs: ROUND_MAX_MS }),
        refusals: new Set<string>(),
      },
      ...{ hasFailed: false, claimsFail: false, forgets: 0, nodes: null },
    });
    this.#out.push({ kind: "open", session: id, name, addresses });
  }

  /** Ends a session without deregistering, because the node may have stalled and would not answer. */
  #end(session: MemberSession): void {
    this.#sessions.delete(session.id);
    this.#out.push({ kind: "end", session: session.id, name: session.name });
    this.#out.push({ kind: "gone", name: session.name });
  }

  #unready(session: MemberSession, tryAt: number): void {
    session.address = null;
    session.tryAt = tryAt;
    this.#out.push({ kind: "not-ready", session: session.id });
  }

  #beginRound(session: MemberSession): void {
    session.refusals.clear();
    session.requests.clear();
    session.round = [...session.addresses];
  }

  /**
   * Registers at the addresses of this round at which the worker had no connection errors. The other addresses are tried a little later.
   */
  #tryMore(session: MemberSession, now: number): void {
    const whole = session.round.filter((address) => !this.#broken.has(address));
    const tried = whole.length > 0 ? whole : session.round;
    session.round = session.round.filter((address) => !tried.includes(address));
    session.tryAt = session.round.length > 0 ? now + STAGGER_MS : NEVER;
    for (const address of tried) {
      const request = ++this.#requestNumber;
      session.requests.set(request, address);
      this.#out.push({ kind: "register", session: session.id, request, address });
    }
  }

  /** Opens sessions at the nodes that the servers name, and ends sessions that are no longer needed. */
  #reconcile(now: number): void {
    if (this.#options.addresses.length === 0 || !this.#isStarted) return;
    const sessions = [...this.#sessions.values()].filter(({ name }) => name !== this.#options.own);
    const targets = targetsOf(sessions);
    // @plant nodes that name only themselves end all sessions 3
    if (targets.size === 0) return;
    for (const url of targets) if (this.#named(url) === undefined) this.#open(url, [url], now);
    this.#tick(now);
    const isTargetInTouch = sessions.some((session) => targets.has(session.name) && isInTouch(session));
    for (const session of sessions) {
      if (targets.has(session.name)) continue;
      // The sessions that name the other nodes are in touch, so a session that is not in touch is never the last one.
      // @plant nodes that name only themselves end all sessions 4
      if (isTargetInTouch || !isInTouch(session)) this.#end(session);
    }
  }

  /** Reports when no session is in touch any more, and schedules a try of the configured addresses. */
  #checkAway(now: number): void {
    const sessions = [...this.#sessions.values()];
    const isAway = sessions.length > 0 && !sessions.some(isHopeful);
    const isBack = sessions.length === 0 || sessions.some(isInTouch);
    if (isAway ? !this.#isAway : isBack && this.#isAway) {
      this.#isAway = isAway;
      this.#out.push({ kind: "trouble", what: isAway ? this.#what : null });
    }
    const hasNone = !sessions.some((session) => session.name !== this.#options.own && isHopeful(session));
    const needsFirst =
      this.#options.addresses.length > 0 && hasNone && !sessions.some(({ name }) => name === FIRST);
    if (!needsFirst) this.#firstAt = NEVER;
    else if (this.#firstAt === NEVER)
      // @plant no session in touch counts as not away
      this.#firstAt = now + AWAY_MS;
  }

  #named(name: string): MemberSession | undefined {
    for (const session of this.#sessions.values()) if (session.name === name) return session;
    return undefined;
  }

  /** Marks an address that registered the worker and then failed it. Returns the time until the next try. */
  #distrust(session: MemberSession, address: string): number {
    this.#broken.add(address);
    if (!session.addresses.every((one) => this.#broken.has(one))) return RETRY_MS;
    // All addresses have failed the worker. So the others are tried again, and this one comes last.
    for (const one of session.addresses) if (one !== address) this.#broken.delete(one);
    return session.backOff.next();
  }

  #check(): void {
    if (!this.#isStarted) return;
    const sessions = [...this.#sessions.values()];
    for (const { name, address, requests, tryAt } of sessions)
      assert(
        address !== null || requests.size > 0 || tryAt < NEVER,
        `the session at ${name} is registered, or a try is under way or scheduled`,
      );
    if (this.#options.addresses.length === 0) return;
    const others = sessions.filter(({ name }) => name !== this.#options.own);
    assert(others.length > 0, "a worker that is not closed has a session");
    assert(
      others.some(isHopeful) || this.#firstAt < NEVER || this.#named(FIRST) !== undefined,
      "with no session in touch, the configured addresses are tried",
    );
  }

  #drain(): readonly MembershipOutput[] {
    const out = this.#out;
    this.#out = [];
    return out;
  }
}

interface MemberSession {
  readonly id: number;
  readonly name: string;
  readonly addresses: readonly string[];
  address: string | null;
  lastAddress: string | null;
  /** The addresses of open registration requests, by the request's number. */
  readonly requests: Map<number, string>;
  /** Addresses that the worker has not tried yet in this round of registration. */
  round: string[];
  /** When the next addresses are tried, or the next round of registration begins; Infinity if neither is scheduled. */
  tryAt: number;
  readonly backOff: BackOff;
  /** Addresses that refused this worker in this round of registration. */
  readonly refusals: Set<string>;
  /** Whether the last registration or request of the session failed. */
  hasFailed: boolean;
  /** Whether the last claim failed. A registration does not prove that claims work. */
  claimsFail: boolean;
  /** How many times the node did not know the worker, since the last answered claim. */
  forgets: number;
  /** The nodes that the server named last; null or empty if it named none. */
  nodes: readonly string[] | null;
}

/** Whether the session is registered and its last claim did not fail. */
function isInTouch({ address, claimsFail }: MemberSession): boolean {
  return address !== null && !claimsFail;
}

/** Whether the session is in touch, or is still trying for the first time. */
function isHopeful(session: MemberSession): boolean {
  return isInTouch(session) || (session.address === null && !session.hasFailed && !session.claimsFail);
}

/** Returns the nodes that need a session: those that the nodes in touch name. */
function targetsOf(sessions: readonly MemberSession[]): ReadonlySet<string> {
  const telling = sessions.filter((session) => isInTouch(session) && (session.nodes?.length ?? 0) > 0);
  const named = new Set(telling.flatMap(({ nodes }) => nodes ?? []));
  const isNamedByAnother = (url: string): boolean => {
    const others = telling.filter(({ name }) => name !== url);
    // @plant nodes that name only themselves end all sessions 2
    return others.length === 0 || others.some(({ nodes }) => nodes?.includes(url));
  };
  const targets = new Set([...named].filter(isNamedByAnother));
  // Nodes that name only themselves contradict each other. An additional session at each of them does no harm.
  // @plant nodes that name only themselves end all sessions
  return targets.size > 0 ? targets : named;
}
