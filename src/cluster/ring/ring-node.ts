/**
 * A node of the ring as a deterministic machine: no promises, no clock, no I/O. `now` is this node's estimate of the store's clock.
 * 1. A token arrives. A token that is older than the last one is dropped. If the sender has another map, the node requests the sender's
 *    full state first. The map that was read from the store later is used.
 * 2. The node reads the messages in the token: hints of mail in its own partitions, timers of nodes that it watches, and reports of dead
 *    nodes.
 * 3. The node replaces its own message in the token by a new one. It sends the token to the next node that answers: at once if something
 *    is new, otherwise after a pause. If there is only one node, it keeps the token.
 * 4. After a few cycles without a token, a node makes a new one. Several nodes may do so; the token with the greater stamp survives.
 *    Correctness does not depend on the ring: the store decides about members and owners, and has all mail and timers.
 */
import { assert, unreachable } from "../../std/assert.ts";
import type { Membership } from "../../store/cluster-store.ts";
import { partitionOf } from "../../store/partition-of.ts";
import type { StoredTimer } from "../../store/store.ts";
import { clockworkersOf } from "./clockworkers.ts";
import type { RingInput, RingOutput, RingView } from "./io.ts";
import { RingMap, type RingMember, type RingState } from "./ring-map.ts";
import { DEFAULT_RING_SETTINGS, type RingSettings } from "./settings.ts";
import { Suspects } from "./suspects.ts";
import { isNewer, newToken, passedOn, type Token, type TokenMessage } from "./token.ts";
import { TokenOutbox } from "./token-outbox.ts";
import { TimerWatch } from "./watch.ts";

/** How much earlier than needed a timer is sent to the nodes that watch it, because clocks differ. */
const HORIZON_SLACK_MS = 5_000;
/** The token counts as lost after this many average cycles without it. The second number is the longest such time. */
const LOST_CYCLES = 4;
const LOST_MAX_MS = 8_000;

/** Where the token is, as far as this node knows. */
type Place =
  | { readonly kind: "elsewhere" }
  | { readonly kind: "held"; readonly token: Token }
  | { readonly kind: "asking"; readonly token: Token; readonly ask: number; readonly until: number }
  | { readonly kind: "posting"; readonly token: Token; readonly post: number; readonly until: number };

const ELSEWHERE: Place = { kind: "elsewhere" };

export class RingNode {
  readonly #url: string;
  readonly #settings: RingSettings;
  readonly #queue: TokenOutbox;
  readonly #watch: TimerWatch;
  readonly #suspects: Suspects;
  readonly #cycle = new CycleTime();
  #now: number;
  #map = RingMap.unknown();
  #incarnation = "";
  #leaseUntil = Number.NEGATIVE_INFINITY;
  /** When the leases of all members end, by incarnation, as of the last read of the store. */
  #leases: ReadonlyMap<string, number> = new Map();
  #owned: ReadonlySet<number> = new Set();
  #outputs: RingOutput[] = [];
  #place: Place = ELSEWHERE;
  #asks = 0;
  /** The newest token that this node has received or sent. */
  #seen: Token | null = null;
  #seenAt = 0;
  #sentAt = Number.NEGATIVE_INFINITY;
  #sentTo: string | null = null;
  /** Partitions of this node whose mailboxes are to be scanned. */
  #withMail = new Set<number>();
  #readMembersAt = Number.NEGATIVE_INFINITY;
  #made = 0;
  #dropped = 0;
  #isLeaving = false;

  constructor(url: string, now: number, settings: Partial<RingSettings> = {}) {
    this.#url = url;
    this.#now = now;
    this.#settings = { ...DEFAULT_RING_SETTINGS, ...settings };
    this.#queue = new TokenOutbox(this.#settings);
    this.#watch = new TimerWatch(this.#settings);
    this.#suspects = new Suspects(this.#settings);
  }

  /** Applies an input. Outputs come from `advance`. */
  input(input: RingInput, now: number): void {
    this.#now = Math.max(this.#now, now);
    switch (input.kind) {
      case "members":
        return this.#members(input.membership);
      case "owned":
        this.#owned = new Set(input.partitions);
        return;
      case "hint":
        if (this.#owns(input.partition)) this.#withMail.add(input.partition);
        else this.#queue.hint(input.partition, input.count);
        return;
      case "timers-set":
        for (const timer of input.timers) if (this.#isNear(timer)) this.#queue.timerSet(timer);
        return;
      case "timers-ended":
        for (const timer of input.timers) if (this.#isNear(timer)) this.#queue.timerEnded(timer);
        return;
      case "token":
        return this.#receive(input.token, input.from);
      case "token-posted":
        if (this.#place.kind === "posting" && this.#place.post === input.post) this.#place = ELSEWHERE;
        return;
      case "token-failed":
        if (this.#place.kind === "posting" && this.#place.post === input.post)
          this.#notPosted(this.#place.token);
        return;
      case "state":
        if (this.#place.kind !== "asking" || this.#place.ask !== input.ask) return;
        if (input.state !== null && input.state.asOf > this.#map.asOf) this.#adopt(new RingMap(input.state));
        return this.#apply(this.#place.token);
      case "timers-scanned":
        return this.#watch.scanned(input.timers, this.#now);
      case "timers-over":
        for (const name of input.timers) this.#watch.ended(name);
        return;
      case "leaving":
        return this.#leave();
      default:
        return unreachable(input);
    }
  }

  /** Does everything that is possible now. Returns outputs, which the driver performs in order. */
  advance(now: number): RingOutput[] {
    this.#now = Math.max(this.#now, now);
    const place = this.#place;
    if (place.kind === "posting" && this.#now >= place.until) this.#notPosted(place.token);
    if (place.kind === "asking" && this.#now >= place.until) this.#apply(place.token);
    if (this.#place.kind === "elsewhere" && /* @plant lost token not replaced */ this.#now >= this.#lostAt())
      this.#makeToken();
    for (const partition of this.#queue.takeHints((one) => this.#owns(one))) this.#withMail.add(partition);
    this.#maybePass();
    if (this.#withMail.size > 0) {
      this.#emit({ kind: "scan-mailbox", partitions: [...this.#withMail].toSorted((a, b) => a - b) });
      this.#withMail.clear();
    }
    const scan = this.#watch.wantedScan(this.#now);
    if (scan !== null) this.#emit({ kind: "scan-timers", ...scan });
    this.#notifyDue();
    const outputs = this.#outputs;
    this.#outputs = [];
    return outputs;
  }

  /** Returns when `advance` has to be called next if no input arrives before; Infinity if it need not be called. */
  nextWakeAt(): number {
    const place = this.#place;
    const tokenAt =
      place.kind === "held"
        ? this.#passAt(place.token)
        : place.kind === "elsewhere"
          ? this.#lostAt()
          : place.until;
    return Math.min(tokenAt, this.#watch.nextAt());
  }

  /** Returns this node's full state, which another node has requested. */
  state(): RingState {
    return this.#map.toState();
  }

  view(): RingView {
    const place = this.#place.kind;
    return viewRing({
      url: this.#url,
      map: this.#map,
      clockworkers: this.#settings.clockworkers,
      isSuspect: (member) => this.#suspects.isSuspect(member, this.#now),
      leases: this.#leases,
      token: this.#seen,
      at: place === "elsewhere" ? (this.#sentTo ?? this.#url) : this.#url,
      seenAt: this.#seenAt,
      cycle: { count: this.#cycle.count, lastMs: this.#cycle.lastMs, averageMs: this.#cycle.averageMs },
      made: this.#made,
      dropped: this.#dropped,
      queued: { hints: this.#queue.hints, timers: this.#queue.timers },
      watch: {
        partitions: this.#watch.partitions.length,
        timers: this.#watch.size,
        lateness: this.#watch.lateness,
      },
      deaths: this.#suspects.noted,
    });
  }

  #members(membership: Membership): void {
    this.#incarnation = membership.incarnation;
    this.#leaseUntil = Math.max(this.#leaseUntil, membership.leaseUntil);
    this.#leases = new Map(membership.nodes.map((node) => [node.incarnation, node.leaseUntil]));
    if (membership.now >= this.#map.asOf) this.#adopt(RingMap.of(membership));
  }

  #adopt(map: RingMap): void {
    const before = this.#map;
    this.#map = map;
    // A new member first waits for the existing token. It makes one only if none arrives.
    if (before.indexOf(this.#url) === -1) this.#seenAt = this.#now;
    this.#suspects.keep(map);
    const partitions = map.ownedBy(map.watchedBy(this.#url, this.#settings.clockworkers));
    const isSame = map.hasMembersOf(before) && String(partitions) === String(this.#watch.partitions);
    if (!isSame) this.#watch.watch(partitions, this.#now);
  }

  #watchers(): string[] {
    return this.#map.watchersOf(this.#url, this.#settings.clockworkers);
  }

  #receive(token: Token, from: string): void {
    this.#suspects.clear(from);
    if (!isNewer(token, this.#seen)) {
      this.#dropped++;
      return;
    }
    this.#see(token);
    if (token.hash === this.#map.hash) return this.#apply(token);
    const ask = ++this.#asks;
    this.#place = { kind: "asking", token, ask, until: this.#now + this.#settings.askMs };
    this.#emit({ kind: "ask-state", ask, to: from });
    this.#readMembers("another map");
  }

  #see(token: Token): void {
    this.#seen = token;
    this.#seenAt = this.#now;
  }

  /** Handles a token from a sender that has the same map as this node, or whose map was received. */
  #apply(token: Token): void {
    this.#cycle.arrived(this.#now);
    const home = token.parcels.find(({ from }) => from === this.#url) ?? null;
    this.#queue.home(home, this.#watchers());
    // A message whose sender has left the ring is dropped after some hops.
    const hopsMax = 2 * Math.max(this.#map.members.length, token.members.length, 1);
    const parcels = token.parcels.flatMap((message) =>
      message.from === this.#url || message.hops >= hopsMax ? [] : [this.#read(message)],
    );
    this.#seen = { ...token, parcels };
    this.#place = { kind: "held", token: this.#seen };
  }

  /** Reads another node's message and removes the entries for this node. */
  #read(message: TokenMessage): TokenMessage {
    for (const { partition } of message.hints) if (this.#owns(partition)) this.#withMail.add(partition);
    const watched = this.#map.watchedBy(this.#url, this.#settings.clockworkers);
    if (message.watchers.includes(this.#url) || watched.includes(this.#map.indexOf(message.from))) {
      for (const timer of message.timers) this.#watch.set(timer);
      for (const name of message.ended) this.#watch.ended(name);
      if (message.scan) this.#watch.rescan(this.#now);
    }
    // A death is reported only while its message goes round the ring for the first time.
    if (message.hops < this.#map.members.length)
      for (const death of message.deaths) {
        if (death.url === this.#url) continue;
        this.#suspects.reported(death, this.#now);
        this.#readMembers(`${death.url} does not answer`);
      }
    return {
      ...message,
      hops: message.hops + 1,
      hints: message.hints.filter(({ partition }) => !this.#owns(partition)),
      watchers: message.watchers.filter((url) => url !== this.#url),
    };
  }

  #passAt(token: Token): number {
    if (this.#isLeaving) return this.#now;
    const length = this.#map.members.length;
    const isUrgent =
      this.#queue.isUrgent || token.parcels.some(({ urgent, hops }) => urgent && hops <= length);
    return this.#sentAt + (isUrgent ? this.#settings.busyCycleMs : this.#settings.idleCycleMs);
  }

  #maybePass(): void {
    if (this.#place.kind !== "held") return;
    const { token } = this.#place;
    if (this.#now < this.#passAt(token)) return;
    const next = this.#map.next(this.#url, (member) => this.#suspects.isSuspect(member, this.#now));
    const message = this.#queue.pack({
      from: this.#url,
      incarnation: this.#incarnation,
      watchers: this.#watchers(),
    });
    const sent = passedOn(token, { url: this.#url, map: this.#map, message });
    this.#see(sent);
    this.#sentAt = this.#now;
    if (next === null) {
      if (this.#isLeaving) this.#place = ELSEWHERE;
      else this.#apply(sent);
      return;
    }
    const post = ++this.#asks;
    this.#sentTo = next.url;
    this.#place = { kind: "posting", token: sent, post, until: this.#now + this.#settings.postMs };
    this.#emit({ kind: "post-token", post, to: next.url, token: sent });
  }

  /**
   * Called when the next node did not answer. Sends the token to the node after it, in a new epoch: the silent node may have the token
   * too, and two tokens with the same stamp could circulate for ever.
   */
  #notPosted(token: Token): void {
    const dead = this.#map.members.find(({ url }) => url === this.#sentTo);
    if (dead !== undefined) {
      const death = { ...dead, by: this.#url };
      this.#suspects.failed(death, this.#now);
      this.#queue.death(death);
      this.#readMembers(`${dead.url} does not answer`);
    }
    this.#queue.takeBack(this.#watchers());
    const parcels = token.parcels.filter(({ from }) => from !== this.#url);
    const anew = { ...token, epoch: token.epoch + 1, maker: this.#incarnation, parcels };
    this.#see(anew);
    this.#place = { kind: "held", token: anew };
    this.#sentAt = Number.NEGATIVE_INFINITY;
  }

  /** Returns when the token counts as lost, if it does not arrive before. */
  #lostAt(): number {
    const others = this.#map.members.filter((member) => !this.#suspects.isSuspect(member, this.#now));
    const rank = others.findIndex(({ url }) => url === this.#url);
    if (rank === -1 || this.#isLeaving) return Number.POSITIVE_INFINITY;
    if (this.#map.members.length === 1) return this.#seenAt;
    const { lostMs, lostStaggerMs } = this.#settings;
    const cycles = LOST_CYCLES * (this.#cycle.averageMs ?? 0);
    return this.#seenAt + Math.min(Math.max(lostMs, cycles), LOST_MAX_MS) + rank * lostStaggerMs;
  }

  #makeToken(): void {
    const token = newToken({ epoch: (this.#seen?.epoch ?? 0) + 1, maker: this.#incarnation, map: this.#map });
    assert(isNewer(token, this.#seen), "a token that this node makes must be the newest");
    this.#made++;
    this.#see(token);
    if (this.#map.members.length > 1) this.#readMembers("the token is lost");
    this.#apply(token);
  }

  /**
   * Says goodbye to the ring, so that other nodes read the members again. If the token is at this node, it is sent on with all waiting
   * entries.
   */
  #leave(): void {
    this.#isLeaving = true;
    this.#queue.death({ url: this.#url, incarnation: this.#incarnation, by: this.#url });
  }

  #notifyDue(): void {
    const byOwner = new Map<string | null, StoredTimer[]>();
    for (const timer of this.#watch.takeDue(this.#now)) {
      const owner = this.#map.ownerOf(partitionOf(timer.execution, this.#map.partitions))?.url ?? null;
      const timers = byOwner.get(owner);
      if (timers === undefined) byOwner.set(owner, [timer]);
      else timers.push(timer);
    }
    for (const [to, timers] of byOwner) this.#emit({ kind: "timer-due", to, timers });
  }

  /**
   * Whether this node owns a partition. If the node's lease may have ended, it does not take hints out of the token, so that the present
   * owner gets them.
   */
  #owns(partition: number): boolean {
    return this.#owned.has(partition) && this.#now < this.#leaseUntil - this.#settings.leaseSlackMs;
  }

  #isNear({ due }: StoredTimer): boolean {
    return due <= this.#now + this.#settings.horizonMs + HORIZON_SLACK_MS;
  }

  #readMembers(why: string): void {
    if (this.#now < this.#readMembersAt) return;
    this.#readMembersAt = this.#now + this.#settings.readMembersMs;
    this.#emit({ kind: "read-members", why });
  }

  #emit(output: RingOutput): void {
    this.#outputs.push(output);
  }
}

/** Measures how long a cycle of the token takes: the last cycle, and a moving average. */
class CycleTime {
  #arrivedAt: number | null = null;
  count = 0;
  lastMs: number | null = null;
  averageMs: number | null = null;

  arrived(now: number): void {
    if (this.#arrivedAt !== null) {
      this.count++;
      this.lastMs = now - this.#arrivedAt;
      this.averageMs = Math.round(((this.averageMs ?? this.lastMs) * 7 + this.lastMs) / 8);
    }
    this.#arrivedAt = now;
  }
}

interface RingFacts extends Pick<RingView, "url" | "cycle" | "made" | "dropped" | "queued" | "deaths"> {
  readonly map: RingMap;
  readonly clockworkers: number;
  readonly isSuspect: (member: RingMember) => boolean;
  readonly leases: ReadonlyMap<string, number>;
  readonly token: Token | null;
  readonly at: string;
  readonly seenAt: number;
  readonly watch: Omit<RingView["watch"], "executors">;
}

/** The ring from the point of view of one node, for `GET /v1/ring`. */
function viewRing(facts: RingFacts): RingView {
  const { url, map, clockworkers, isSuspect, leases, token, at, seenAt, watch, ...rest } = facts;
  const hashes = new Map(token?.maps.map((one) => [one.url, one.hash]));
  hashes.set(url, map.hash);
  const nodes = map.members.map((member, index) => {
    const hash = hashes.get(member.url) ?? null;
    const watching = clockworkersOf(index, map.members.length, clockworkers);
    return {
      ...member,
      partitions: map.ownedBy([index]).length,
      hash,
      agrees: hash === map.hash,
      suspect: isSuspect(member),
      leaseUntil: leases.get(member.incarnation) ?? null,
      clockworkers: watching.map((watcher) => map.members[watcher]?.url as string),
    };
  });
  const executors = nodes
    .filter((node) => node.url !== url && node.clockworkers.includes(url))
    .map((node) => node.url);
  const carried = { hints: 0, timers: 0 };
  for (const { hints, timers, ended } of token?.parcels ?? []) {
    carried.hints += hints.length;
    carried.timers += timers.length + ended.length;
  }
  const seen =
    token === null
      ? null
      : { epoch: token.epoch, number: token.number, maker: token.maker, members: token.members, at, seenAt };
  return { url, hash: map.hash, nodes, token: seen, carried, watch: { executors, ...watch }, ...rest };
}
