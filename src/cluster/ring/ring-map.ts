/** The map of the ring: members by URL, and owners of partitions, as of one read of the store. */
import { sha256 } from "../../std/hash.ts";
import type { MemberNode, Membership } from "../../store/cluster-store.ts";
import { clockworkersOf } from "./clockworkers.ts";

export interface RingMember {
  readonly url: string;
  readonly incarnation: string;
}

/** A map as nodes send it to each other. */
export interface RingState {
  readonly v: 1;
  /** The time of the store's clock when the map was read. */
  readonly asOf: number;
  readonly members: readonly RingMember[];
  /** For each partition the index of its owner among the members; -1 if it has none. */
  readonly owners: readonly number[];
}

export class RingMap {
  readonly asOf: number;
  readonly members: readonly RingMember[];
  readonly #owners: readonly number[];
  readonly #text: string;
  #hash: string | null = null;

  constructor({ asOf, members, owners }: Omit<RingState, "v">) {
    this.asOf = asOf;
    this.members = members;
    this.#owners = owners;
    this.#text = members.map(({ url, incarnation }) => `${url} ${incarnation}\n`).join("");
  }

  /** The hash of the members in their order, with their incarnations. */
  get hash(): string {
    this.#hash ??= sha256(this.#text).slice(0, 16);
    return this.#hash;
  }

  hasMembersOf(other: RingMap): boolean {
    return this.#text === other.#text;
  }

  /** The map before the first read of the store. It is empty, and any other map is newer. */
  static unknown(): RingMap {
    return new RingMap({ asOf: -1, members: [], owners: [] });
  }

  /** Makes a map from a read of the store. If several members have the same URL, the latest incarnation counts. */
  static of({ now, nodes, partitions }: Membership): RingMap {
    const byUrl = new Map<string, MemberNode>();
    for (const node of nodes) {
      const other = byUrl.get(node.url);
      if (other === undefined || other.since <= node.since) byUrl.set(node.url, node);
    }
    const members = [...byUrl.values()]
      .map(({ url, incarnation }) => ({ url, incarnation }))
      .toSorted((a, b) => (a.url < b.url ? -1 : 1));
    const index = new Map(members.map(({ incarnation }, at) => [incarnation, at]));
    const owners: number[] = Array.from({ length: partitions.length }, () => -1);
    for (const { partition, owner } of partitions)
      owners[partition] = owner === null ? -1 : (index.get(owner) ?? -1);
    return new RingMap({ asOf: now, members, owners });
  }

  get partitions(): number {
    return this.#owners.length;
  }

  indexOf(url: string): number {
    return this.members.findIndex((member) => member.url === url);
  }

  /** Returns the next member in order that is not skipped; null if there is none. `url` need not be a member. */
  next(url: string, isSkipped: (member: RingMember) => boolean = () => false): RingMember | null {
    const after = this.members.filter((member) => member.url > url);
    const before = this.members.filter((member) => member.url < url);
    return [...after, ...before].find((member) => !isSkipped(member)) ?? null;
  }

  ownerOf(partition: number): RingMember | null {
    return this.members[this.#owners[partition] ?? -1] ?? null;
  }

  /** The partitions that these members own; the members are given by index. */
  ownedBy(members: readonly number[]): number[] {
    return this.#owners.flatMap((owner, partition) => (members.includes(owner) ? [partition] : []));
  }

  /** The indexes of the members whose timers this member watches. */
  watchedBy(url: string, clockworkers: number): number[] {
    const own = this.indexOf(url);
    const { length } = this.members;
    return this.members.flatMap((_, executor) =>
      executor !== own && clockworkersOf(executor, length, clockworkers).includes(own) ? [executor] : [],
    );
  }

  /** The URLs of the members that watch the timers of this member. */
  watchersOf(url: string, clockworkers: number): string[] {
    const own = this.indexOf(url);
    if (own === -1) return [];
    return clockworkersOf(own, this.members.length, clockworkers)
      .filter((index) => index !== own)
      .map((index) => this.members[index]?.url as string);
  }

  toState(): RingState {
    return { v: 1, asOf: this.asOf, members: this.members, owners: this.#owners };
  }
}
