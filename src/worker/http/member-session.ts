/** The state of one session in the membership machine, and the nodes that sessions name. */
import type { BackOff } from "../../std/back-off.ts";

export interface MemberSession {
  readonly id: number;
  readonly name: string;
  readonly addresses: readonly string[];
  /** The address at which it is registered, or null. */
  address: string | null;
  /** The address at which it was registered last. */
  lastAddress: string | null;
  /** Registration requests under way: their addresses by number. */
  readonly requests: Map<number, string>;
  /** Addresses that this round has not tried yet. */
  round: string[];
  /** When the next addresses are tried, or the next round begins; Infinity: nothing is scheduled. */
  tryAt: number;
  readonly backOff: BackOff;
  /** Addresses that refused this worker in this round. */
  readonly refusals: Set<string>;
  /** Its last registration or request failed. */
  hasFailed: boolean;
  /** The last claim failed. A registration does not prove that claims work. */
  claimsFail: boolean;
  /** How often the node did not know the worker, since the last answered claim. */
  forgets: number;
  /** The nodes that the server named last; null or empty: none. */
  nodes: readonly string[] | null;
}

/** Whether the session is registered and its last claim did not fail. */
export function isInTouch({ address, claimsFail }: MemberSession): boolean {
  return address !== null && !claimsFail;
}

/** Whether the session is in touch or has not failed yet. */
export function isHopeful(session: MemberSession): boolean {
  return isInTouch(session) || (session.address === null && !session.hasFailed && !session.claimsFail);
}

/** The nodes that need a session: those that the sessions in touch name. */
export function targetsOf(sessions: readonly MemberSession[]): ReadonlySet<string> {
  const telling = sessions.filter((session) => isInTouch(session) && (session.nodes?.length ?? 0) > 0);
  const named = new Set(telling.flatMap(({ nodes }) => nodes ?? []));
  const isNamedByAnother = (url: string): boolean => {
    const others = telling.filter(({ name }) => name !== url);
    // @plant nodes that name only themselves end all sessions 2
    return others.length === 0 || others.some(({ nodes }) => nodes?.includes(url));
  };
  const targets = new Set([...named].filter(isNamedByAnother));
  // Nodes that name only themselves contradict each other. A session at each of them does no harm.
  // @plant nodes that name only themselves end all sessions
  return targets.size > 0 ? targets : named;
}
