/** A session of a worker as the membership machine knows it, and the nodes that sessions name. */
import type { BackOff } from "../../std/back-off.ts";

export interface MemberSession {
  readonly id: number;
  readonly name: string;
  readonly addresses: readonly string[];
  /** Where it is registered; null: it is not. */
  address: string | null;
  /** Where it was registered last. */
  lastAddress: string | null;
  /** Registration requests under way: their addresses by number. */
  readonly requests: Map<number, string>;
  /** Addresses that are still to be tried in this round. */
  round: string[];
  /** When more addresses are tried, or the next round begins; Infinity: nothing is scheduled. */
  tryAt: number;
  readonly backOff: BackOff;
  /** Addresses that refused this worker in this round. */
  readonly refusals: Set<string>;
  /** Its last registration or request failed. */
  hasFailed: boolean;
  /** Its last claim failed: being registered does not prove that claims work. */
  claimsFail: boolean;
  /** How often the node did not know the worker since its last answered claim. */
  forgets: number;
  /** The nodes that it named last; null or empty: it named none. */
  nodes: readonly string[] | null;
}

/** Registered, and claims work as far as is known. */
export function isInTouch({ address, claimsFail }: MemberSession): boolean {
  return address !== null && !claimsFail;
}

/** In touch, or tried for the first time. */
export function isHopeful(session: MemberSession): boolean {
  return isInTouch(session) || (session.address === null && !session.hasFailed && !session.claimsFail);
}

/** The nodes at which there should be sessions, as those in touch name them. */
export function targetsOf(sessions: readonly MemberSession[]): ReadonlySet<string> {
  const telling = sessions.filter((session) => isInTouch(session) && (session.nodes?.length ?? 0) > 0);
  const named = new Set(telling.flatMap(({ nodes }) => nodes ?? []));
  const isNamedByAnother = (url: string): boolean => {
    const others = telling.filter(({ name }) => name !== url);
    // @plant nodes that name only themselves end all sessions 2
    return others.length === 0 || others.some(({ nodes }) => nodes?.includes(url));
  };
  const targets = new Set([...named].filter(isNamedByAnother));
  // Nodes that each name only themselves contradict each other: a session at each of them does no harm.
  // @plant nodes that name only themselves end all sessions
  return targets.size > 0 ? targets : named;
}
