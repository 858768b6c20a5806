/**
 * The token, as it goes from node to node. Each node has at most one message aboard: it puts it in, everybody it meets
 * reads it, and it is taken out where it began, after one full cycle. Whoever a thing in it is for takes that out; what
 * comes home was not taken, and a message that does not come home is sent again. The token is never the only copy of
 * anything.
 */
import type { StoredTimer } from "../../store/store.ts";
import type { RingMap } from "./ring-map.ts";

/** Letters were put into the durable inbox of a partition. */
export interface MailHint {
  readonly partition: number;
  readonly count: number;
}

/** A timer, by its name. */
export interface TimerName {
  readonly execution: string;
  readonly timer: string;
}

/** A member that did not answer, or that says that it leaves. */
export interface Death {
  readonly url: string;
  readonly incarnation: string;
  readonly by: string;
}

/** What one node sends round. */
export interface TokenMessage {
  readonly from: string;
  readonly incarnation: string;
  readonly number: number;
  /** Something in it is new: the token does not linger. */
  readonly urgent: boolean;
  /** Nodes it has come to. */
  readonly hops: number;
  /** What the owners of these partitions have not taken out yet. */
  readonly hints: readonly MailHint[];
  readonly timers: readonly StoredTimer[];
  readonly ended: readonly TimerName[];
  /** There was more about timers than a message holds: its watchers read the store. */
  readonly scan: boolean;
  /** Clockworkers of `from` that have not read about its timers yet. */
  readonly watchers: readonly string[];
  readonly deaths: readonly Death[];
}

/** What tells tokens apart: the greater is the one that lives. */
export interface TokenStamp {
  /** The ring's epoch: one more whenever a token is made anew, or sent again after a post without an answer. */
  readonly epoch: number;
  /** The incarnation that began the epoch, for two that do so at the same time. */
  readonly maker: string;
  /** One more at each hop. */
  readonly number: number;
}

/** The token. */
export interface Token extends TokenStamp {
  readonly v: 1;
  /** URLs of the members in order, and the hash of the map, by whoever sent it last. */
  readonly members: readonly string[];
  readonly hash: string;
  /** Hash of the map of each node, when the token was there. */
  readonly maps: readonly { readonly url: string; readonly hash: string }[];
  readonly parcels: readonly TokenMessage[];
}

/** True if the first is to live when the other was seen. */
export function isNewer(token: TokenStamp, seen: TokenStamp | null): boolean {
  if (seen === null || token.epoch !== seen.epoch) return token.epoch > (seen?.epoch ?? -1);
  return token.maker === seen.maker ? token.number > seen.number : token.maker > seen.maker;
}

/** A token that begins a new epoch of the ring. */
export function newToken({ epoch, maker, map }: { epoch: number; maker: string; map: RingMap }): Token {
  const members = map.members.map(({ url }) => url);
  return { v: 1, epoch, maker, number: 0, members, hash: map.hash, maps: [], parcels: [] };
}

/** The token as it leaves a node: one hop further, with the node's map and message. */
export function passedOn(
  token: Token,
  { url, map, message }: { url: string; map: RingMap; message: TokenMessage | null },
): Token {
  const hashes = new Map(token.maps.map((one) => [one.url, one.hash]));
  hashes.set(url, map.hash);
  return {
    ...token,
    number: token.number + 1,
    members: map.members.map((member) => member.url),
    hash: map.hash,
    maps: map.members.flatMap((member) => {
      const hash = hashes.get(member.url);
      return hash === undefined ? [] : [{ url: member.url, hash }];
    }),
    parcels: message === null ? token.parcels : [...token.parcels, message],
  };
}
