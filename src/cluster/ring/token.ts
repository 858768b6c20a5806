/**
 * The ring's token. Each node has at most one message in it: every other node reads the message, and its sender removes it after one
 * cycle. Entries that return without being taken are sent again. All data in the token is also in the store or at a node.
 */
import type { StoredTimer } from "../../store/store.ts";
import type { RingMap } from "./ring-map.ts";

/** Mail was stored for a partition. */
export interface MailHint {
  readonly partition: number;
  readonly count: number;
}

export interface TimerName {
  readonly execution: string;
  readonly timer: string;
}

/** A member that did not answer, or that leaves. */
export interface Death {
  readonly url: string;
  readonly incarnation: string;
  readonly by: string;
}

export interface TokenMessage {
  readonly from: string;
  readonly incarnation: string;
  readonly number: number;
  /** Whether an entry of the message is new, so that the token is passed on without a pause. */
  readonly urgent: boolean;
  /** The number of nodes that the message has visited. */
  readonly hops: number;
  /** Hints that the owners of these partitions have not taken yet. */
  readonly hints: readonly MailHint[];
  readonly timers: readonly StoredTimer[];
  readonly ended: readonly TimerName[];
  /** Whether there were more changes of timers than a message holds, so that the watchers scan the store. */
  readonly scan: boolean;
  /** Clockworkers of the sender that have not read its timers yet. */
  readonly watchers: readonly string[];
  readonly deaths: readonly Death[];
}

/** The stamp of a token. It orders tokens: of two tokens, the one with the greater stamp survives. */
export interface TokenStamp {
  /** The epoch of the ring. It grows when a node makes a token, or sends it again because the next node did not answer. */
  readonly epoch: number;
  /** The incarnation of the node that began the epoch. It decides between two tokens whose epochs have the same number. */
  readonly maker: string;
  /** The number of the token, which grows with each hop. */
  readonly number: number;
}

export interface Token extends TokenStamp {
  readonly v: 1;
  /** The URLs of the members in order, and the hash of the map, according to the node that sent the token last. */
  readonly members: readonly string[];
  readonly hash: string;
  /** The hash of each node's map, as of the time when the token was last at that node. */
  readonly maps: readonly { readonly url: string; readonly hash: string }[];
  readonly parcels: readonly TokenMessage[];
}

/** Whether the first token survives, because its stamp is greater. */
export function isNewer(token: TokenStamp, seen: TokenStamp | null): boolean {
  if (seen === null || token.epoch !== seen.epoch) return token.epoch > (seen?.epoch ?? -1);
  return token.maker === seen.maker ? token.number > seen.number : token.maker > seen.maker;
}

export function newToken({ epoch, maker, map }: { epoch: number; maker: string; map: RingMap }): Token {
  const members = map.members.map(({ url }) => url);
  return { v: 1, epoch, maker, number: 0, members, hash: map.hash, maps: [], parcels: [] };
}

/** Returns the token that leaves a node: with the next number, and with this node's map and message. */
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
