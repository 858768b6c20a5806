/**
 * The sessions of a worker: one at each node of the cluster, as the nodes themselves tell.
 *
 * 1. It begins with the first of its addresses that answers. If that names no nodes, there is only this server, and all
 *    of it stays there.
 * 2. Otherwise there is a session at each node that another one in touch names; the others end.
 * 3. While none is in touch, the addresses are tried again as well.
 * 4. If the process is a node itself, there is a session at that too while the worker has something that may be there.
 */
import type { Clock } from "../../std/clock.ts";
import type { NodeSession } from "./node-session.ts";

export interface NodeSessionsOptions {
  /** Where to begin; none: whoever has this says which nodes there are. */
  readonly addresses: readonly string[];
  /** The node that this process is itself; null: it is none. */
  readonly own: string | null;
  /** Whether the worker has something that may be at a node. */
  readonly isNeeded: (name: string) => boolean;
  readonly clock: Clock;
  readonly open: (name: string, addresses: readonly string[]) => NodeSession;
  /** A node is gone, or out of touch: what it had may be elsewhere. */
  readonly onGone: (name: string) => void;
  /** No node is in touch (null: one is again). */
  readonly onTrouble: (what: string | null) => void;
  readonly onBug: (thrown: unknown) => void;
}

/** The name of the session at whichever server answers at the addresses. */
export const FIRST = "first";
/** With no node in touch for so long, the addresses are tried again. */
const AGAIN_MS = 5_000;

export class NodeSessions {
  readonly #options: NodeSessionsOptions;
  readonly #sessions = new Map<string, NodeSession>();
  #isStarted = false;
  #isClosed = false;
  #isAway = false;
  #stopTimer: (() => void) | null = null;

  constructor(options: NodeSessionsOptions) {
    this.#options = options;
    if (options.addresses.length > 0) this.#open(FIRST, options.addresses);
  }

  get all(): readonly NodeSession[] {
    return [...this.#sessions.values()];
  }

  get(name: string): NodeSession | undefined {
    return this.#sessions.get(name);
  }

  /** The session at the addresses, while there is one. */
  get first(): NodeSession | undefined {
    return this.#sessions.get(FIRST);
  }

  /** Sessions that share what the worker can take: those that are not known to be out of touch. At its own it takes nothing. */
  get sharing(): number {
    const { own } = this.#options;
    return this.all.reduce((sum, { link, name }) => sum + (link.isInTrouble || name === own ? 0 : 1), 0);
  }

  /** None is in touch. */
  get isAway(): boolean {
    return this.#isAway;
  }

  /** Begins to claim. */
  start(): void {
    this.#isStarted = true;
    for (const { claims } of this.all) claims.wake();
  }

  /** A node said which nodes there are; undefined: it did not say. */
  heard(session: NodeSession, nodes: readonly string[] | undefined): void {
    if (
      nodes === undefined ||
      this.#options.addresses.length === 0 ||
      this.#isClosed ||
      this.get(session.name) !== session
    )
      return;
    session.nodes = nodes;
    const telling = this.all.filter(({ link, nodes: told }) => !link.isInTrouble && told !== null);
    const urls = new Set(telling.flatMap(({ nodes: told }) => told ?? []));
    // One that stands still names itself: where there are others, they have to.
    const isNamed = (url: string): boolean => {
      const others = telling.filter(({ name }) => name !== url);
      return others.length === 0 || others.some(({ nodes: told }) => told?.includes(url));
    };
    this.become([...urls].filter(isNamed));
  }

  /** There are these nodes now, and no others. */
  become(urls: readonly string[]): void {
    if (this.#isClosed) return;
    for (const url of urls) if (!this.#sessions.has(url)) this.#open(url, [url]);
    const { own } = this.#options;
    for (const session of this.all)
      if (session.name !== own && !urls.includes(session.name)) this.#end(session);
    this.#look("no node is in touch");
  }

  /** What the worker has may be at the node that this process is, or is not any more. */
  lookAtOwn(): void {
    const { own, isNeeded, onBug } = this.#options;
    if (own === null || this.#isClosed) return;
    const session = this.#sessions.get(own);
    if (session === undefined && isNeeded(own)) this.#open(own, [own]);
    if (session === undefined || isNeeded(own)) return;
    this.#sessions.delete(own);
    session.close().catch(onBug);
  }

  /** A node is out of touch, or in touch again (null). */
  troubled(session: NodeSession, what: string | null): void {
    if (this.#isClosed || this.get(session.name) !== session) return;
    if (what !== null && session.name !== FIRST) this.#options.onGone(session.name);
    this.#look(what ?? "");
  }

  /** Ends all of them, with a goodbye. */
  async close(): Promise<void> {
    this.#isClosed = true;
    this.#stopTimer?.();
    await Promise.all(this.all.map((session) => session.close()));
  }

  #open(name: string, addresses: readonly string[]): void {
    const session = this.#options.open(name, addresses);
    this.#sessions.set(name, session);
    if (this.#isStarted) session.claims.wake();
  }

  /**
   * Without a goodbye: a node that is named no more may stand still, and what is under way there must not wait for it;
   * and the one at the addresses has a session under its own name as well. Only work that is on its way is still taken.
   */
  #end(session: NodeSession): void {
    this.#sessions.delete(session.name);
    session.close({ saysGoodbye: false, waitsForClaims: true }).catch(this.#options.onBug);
    this.#options.onGone(session.name);
  }

  #look(what: string): void {
    const { addresses, clock, onTrouble } = this.#options;
    const isAway = this.#sessions.size > 0 && this.all.every(({ link }) => link.isInTrouble);
    if (isAway !== this.#isAway) {
      this.#isAway = isAway;
      onTrouble(isAway ? what : null);
    }
    if (!isAway || addresses.length === 0 || this.first !== undefined) return;
    this.#stopTimer ??= clock.after(AGAIN_MS, () => {
      this.#stopTimer = null;
      if (!this.#isClosed && this.#isAway && this.first === undefined) this.#open(FIRST, addresses);
    });
  }
}
