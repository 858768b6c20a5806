/**
 * The map of the ring: the members in the order of their URLs, and who owns which partition, as the store said at one
 * moment of its clock. A later reading replaces an earlier one, whoever made it. The hash is over the ordered members
 * and their incarnations, so nodes with equal hashes have the same ring.
 */
import { sha256 } from "../../std/hash.ts";
import type { MemberNode, Membership } from "../../store/cluster-store.ts";
import { clockworkersOf } from "./clockworkers.ts";

/** A node in the ring. */
export interface RingMember {
  readonly url: string;
  readonly incarnation: string;
}

/** A map as it is told to another node. */
export interface RingState {
  readonly v: 1;
  /** The store's clock when it was read. */
  readonly asOf: number;
  readonly members: readonly RingMember[];
  /** By partition: the index of its owner among the members, or -1. */
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

  /** Over the ordered members and their incarnations. */
  get hash(): string {
    this.#hash ??= sha256(this.#text).slice(0, 16);
    return this.#hash;
  }

  /** Whether the ring is the same: then the hashes are too. */
  hasMembersOf(other: RingMap): boolean {
    return this.#text === other.#text;
  }

  /** The map before the store was read: nobody is in it, and any other is newer. */
  static unknown(): RingMap {
    return new RingMap({ asOf: -1, members: [], owners: [] });
  }

  /** The map by a reading of the store. A node that came back at the same URL counts by its latest life. */
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

  /** The next in order that is not skipped; null: there is no other. A node that is no member has its place too. */
  next(url: string, isSkipped: (member: RingMember) => boolean = () => false): RingMember | null {
    const after = this.members.filter((member) => member.url > url);
    const before = this.members.filter((member) => member.url < url);
    return [...after, ...before].find((member) => !isSkipped(member)) ?? null;
  }

  ownerOf(partition: number): RingMember | null {
    return this.members[this.#owners[partition] ?? -1] ?? null;
  }

  /** Partitions of the members that these indexes name. */
  ownedBy(members: readonly number[]): number[] {
    return this.#owners.flatMap((owner, partition) => (members.includes(owner) ? [partition] : []));
  }

  /** Other members whose timers this one watches, by their index. */
  watchedBy(url: string, clockworkers: number): number[] {
    const own = this.indexOf(url);
    const { length } = this.members;
    return this.members.flatMap((_, executor) =>
      executor !== own && clockworkersOf(executor, length, clockworkers).includes(own) ? [executor] : [],
    );
  }

  /** Other members that watch the timers of this one. */
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
