/** A worker's session at one node: the way there, its claims, its beats, and what it says there. */
import type { Claimed } from "../../protocol/worker-wire.ts";
import type { Clock } from "../../std/clock.ts";
import type { Random } from "../../std/random.ts";
import { ClaimLoop } from "./claim-loop.ts";
import { EventQueue } from "./event-queue.ts";
import { Heartbeats } from "./heartbeats.ts";
import type { HeldAttempt, HeldAttempts } from "./held-attempts.ts";
import type { Entry, Outbox } from "./outbox.ts";
import { type CloseOptions, type Refused, ServerLink, type ServerLinkOptions } from "./server-link.ts";

/** What all sessions of a worker share. */
export interface SessionParts {
  readonly clock: Clock;
  readonly random: Random;
  readonly held: HeldAttempts;
  readonly outbox: Outbox;
  /** How many more attempts a session may take now. */
  readonly room: () => number;
  readonly onClaimed: (session: NodeSession, claimed: Claimed) => void;
  /** Attempts that are to be stopped. */
  readonly onWord: (ids: readonly string[], why: "cancel" | "lost") => void;
  /** A node has an attempt, or does not. */
  readonly onHome: (session: NodeSession, attempt: HeldAttempt, isHere: boolean) => void;
  /** Something was acknowledged. */
  readonly onTaken: () => void;
  readonly onDropped: (attempt: string, why: Refused) => void;
  readonly onBug: (thrown: unknown) => void;
}

export interface NodeSessionOptions extends Pick<ServerLinkOptions, "addresses" | "token"> {
  /** The node's URL; or another name, for whichever server answers at the addresses. */
  readonly name: string;
  /** Whether there may be others to turn to: then nothing but a claim is sent twice. */
  readonly isOneOfMany: boolean;
  readonly registration: ServerLinkOptions["registration"];
  readonly onRegistered: (
    session: NodeSession,
    registered: Parameters<ServerLinkOptions["onRegistered"]>[0],
  ) => void;
  readonly onTrouble: (session: NodeSession, what: string | null) => void;
}

/** An answer that takes longer is none, where others can be asked. */
const EVENTS_MS = 30_000;
const BEAT_MS = 10_000;

export class NodeSession {
  readonly name: string;
  readonly link: ServerLink;
  readonly claims: ClaimLoop;
  readonly heartbeats: Heartbeats;
  readonly events: EventQueue<Entry>;
  /** The nodes of the cluster, as this one told last; null: it knows of none. */
  nodes: readonly string[] | null = null;

  constructor(options: NodeSessionOptions, parts: SessionParts) {
    const { name, isOneOfMany, onRegistered, onTrouble, ...way } = options;
    const { clock, random, held, outbox, onBug } = parts;
    this.name = name;
    this.link = new ServerLink({
      ...way,
      clock,
      random,
      onRegistered: (registered) => onRegistered(this, registered),
      onTrouble: (what) => onTrouble(this, what),
    });
    const once = (timeoutMs: number) => (isOneOfMany ? { isOnce: true, timeoutMs } : {});
    this.claims = new ClaimLoop({
      clock,
      random,
      post: (body, more) => this.link.post("claim", body, more),
      room: parts.room,
      onClaimed: (claimed) => parts.onClaimed(this, claimed),
      onBug,
    });
    this.heartbeats = new Heartbeats({
      clock,
      held,
      node: name,
      post: (body) => this.link.post("heartbeat", body, once(BEAT_MS)),
      onWord: parts.onWord,
      onHome: (attempt, isHere) => parts.onHome(this, attempt, isHere),
      onBug,
    });
    this.events = new EventQueue<Entry>({
      post: (body) => this.link.post("events", body, once(EVENTS_MS)),
      onSettled: (settled) => {
        parts.onTaken();
        outbox.settled(settled);
      },
      onDropped: parts.onDropped,
      onMoved: (entries) => outbox.moved(entries),
      onBug,
    });
  }

  /** Ends what is under way there. */
  async close(options: CloseOptions = {}): Promise<void> {
    this.heartbeats.stop();
    await this.link.close(options);
  }
}
