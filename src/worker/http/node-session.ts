/** A worker's session at one node: its connection, claims, heartbeats and events. */
import type { Claimed, EventsAnswer } from "../../protocol/worker-wire.ts";
import { ClaimLoop, type ClaimLoopOptions } from "./claim-loop.ts";
import { EventQueue } from "./event-queue.ts";
import { Heartbeats } from "./heartbeats.ts";
import type { HeldAttempt, HeldAttempts } from "./held-attempts.ts";
import type { SessionEvents } from "./node-sessions.ts";
import type { Entry, Outbox } from "./outbox.ts";
import { readClaimed, readEventsAnswer, readHeartbeatAnswer } from "./read-answers.ts";
import { type Called, type CloseOptions, ServerLink, type ServerLinkOptions } from "./server-link.ts";
import type { Refused } from "./server-problem.ts";

/** The objects that all sessions of a worker share. */
export interface SessionParts
  extends Pick<ClaimLoopOptions, "clock" | "random" | "heartbeatMs" | "room" | "onBug"> {
  readonly held: HeldAttempts;
  readonly outbox: Outbox;
  /** The ids of failed claims, by the address of their server. */
  readonly failedClaims: Map<string, string[]>;
  readonly onClaimed: (session: NodeSession, claimed: Claimed) => void;
  readonly onStop: (ids: readonly string[], why: "cancel" | "lost") => void;
  /** Called when the node of this session turns out to own an attempt, or not to own it. */
  readonly onHome: (session: NodeSession, attempt: HeldAttempt, isHere: boolean) => void;
  readonly onTaken: () => void;
  readonly onDropped: (attempt: string, why: Refused) => void;
}

export interface NodeSessionOptions
  extends SessionEvents,
    Pick<ServerLinkOptions, "addresses" | "token" | "connect" | "registration" | "worker"> {
  /** The URL of the node, or FIRST for the session at the configured addresses. */
  readonly name: string;
  /** Whether other nodes may answer instead of this one. In that case a failed request with events is not repeated at this node. */
  readonly isOneOfMany: boolean;
}

/** The limits of the time-out of an answer, which is half of the shortest heartbeat time-out. */
const ANSWER_MIN_MS = 500;
const ANSWER_MAX_MS = 5_000;

export class NodeSession {
  readonly name: string;
  readonly link: ServerLink;
  readonly claims: ClaimLoop;
  readonly heartbeats: Heartbeats;
  readonly events: EventQueue<Entry>;
  /** Whether the node gives brief answers. Such a node also accepts claims with events. */
  #isBrief = false;
  /** The address at which the session was registered last. */
  #address = "";

  constructor(options: NodeSessionOptions, parts: SessionParts) {
    const { name, isOneOfMany, onAnswered, ...way } = options;
    const { clock, random, held, outbox, onBug } = parts;
    this.name = name;
    const shortestMs = () => Math.min(held.shortestHeartbeatMs(), parts.heartbeatMs());
    this.link = new ServerLink({
      ...way,
      clock,
      random,
      answerMs: () => Math.max(ANSWER_MIN_MS, Math.min(ANSWER_MAX_MS, shortestMs() / 2)),
      // An answered claim is reported in `onClaimed`, together with the list of nodes that it contains.
      onAnswered: (route) => (route === "claim" ? undefined : onAnswered(route)),
    });
    this.claims = new ClaimLoop({
      clock,
      random,
      post: (body, claim) => this.link.post("claim", body, { read: readClaimed, ...claim, isOnce: true }),
      isReady: () => this.link.isConnected,
      heartbeatMs: parts.heartbeatMs,
      room: parts.room,
      canClaimWithEvents: () => this.#isBrief,
      failed: {
        add: (id) => this.#failedClaims(parts).push(id),
        take: () => this.#failedClaims(parts).shift(),
      },
      onClaimed: (claimed) => {
        parts.onClaimed(this, claimed);
        onAnswered("claim", claimed.nodes);
      },
      onBug,
    });
    this.heartbeats = new Heartbeats({
      clock,
      held,
      node: name,
      post: (body) => this.link.post("heartbeat", body, { read: readHeartbeatAnswer, isOnce: true }),
      onStop: parts.onStop,
      onHome: (attempt, isHere) => parts.onHome(this, attempt, isHere),
      onBug,
    });
    this.events = new EventQueue<Entry>({
      clock,
      random,
      post: (body) => this.#postEvents(body, isOneOfMany),
      onSettled: (settled) => {
        parts.onTaken();
        outbox.settled(settled);
      },
      onDropped: parts.onDropped,
      onMoved: (entries) => outbox.moved(entries),
      onBug,
    });
  }

  /** Called when the session is registered. Sends a claim at once. */
  ready(address: string): void {
    this.#address = address;
    this.link.ready(address);
    this.claims.restart();
  }

  /** The ids of failed claims at the server of this session. */
  #failedClaims({ failedClaims }: SessionParts): string[] {
    // @plant failed claims not kept
    const there = failedClaims.get(this.#address) ?? [];
    failedClaims.set(this.#address, there);
    return there;
  }

  /** Sends events. If the next claim is held back for them, it goes in the same request. */
  async #postEvents(body: string, isOnce: boolean): Promise<Called<EventsAnswer>> {
    const claim = this.claims.claimWithEvents();
    const claims = claim === null ? {} : { claimId: claim.claimId, claimMax: claim.max };
    const called = await this.link.post("events", body, { read: readEventsAnswer, isOnce, ...claims });
    const answer = called.kind === "answered" ? called.value : null;
    this.#isBrief = answer?.rest !== undefined;
    if (claim !== null) this.claims.claimAnswered(claim, answer?.claimed ?? null);
    return called;
  }

  async close(options: CloseOptions & { readonly worker: string | null }): Promise<void> {
    this.heartbeats.stop();
    this.claims.end();
    await this.link.close(options);
  }
}
