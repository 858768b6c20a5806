import { clockworkersOf } from "./clockworkers.ts";
import type { RingView } from "./io.ts";
import type { RingMap, RingMember } from "./ring-map.ts";
import type { Token } from "./token.ts";

/** What a node knows of the ring. */
export interface RingFacts
  extends Pick<RingView, "url" | "cycle" | "made" | "dropped" | "queued" | "deaths"> {
  readonly map: RingMap;
  readonly clockworkers: number;
  readonly isSuspect: (member: RingMember) => boolean;
  readonly leases: ReadonlyMap<string, number>;
  readonly token: Token | null;
  readonly at: string;
  readonly seenAt: number;
  readonly watch: Omit<RingView["watch"], "executors">;
}

/** The ring as one node sees it, for `GET /v1/ring`. */
export function viewRing(facts: RingFacts): RingView {
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
