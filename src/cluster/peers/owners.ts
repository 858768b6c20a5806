/**
 * The owners of executions as this node knows them. This knowledge may be out of date: after an answer `not-owner`, the node reads the
 * store again.
 */
import type { Membership } from "../../store/cluster-store.ts";
import { partitionOf } from "../../store/partition-of.ts";
import type { Ownership } from "../../store/store.ts";

export interface PeerNode {
  readonly url: string;
  readonly incarnation: string;
}

/** The owner of an execution: this node, another member, or no node that can be asked. */
export type Owner =
  | { readonly kind: "me" }
  | ({ readonly kind: "peer" } & PeerNode)
  | { readonly kind: "nobody" };

export interface OwnersOptions {
  readonly url: string;
  readonly partitions: number;
  /** Requests a new read of the store; `update` gets the result. */
  readonly refresh: () => void;
}

/** The owner of a partition in one epoch. */
interface Term {
  readonly owner: Owner;
  readonly epoch: number;
}

const ME: Owner = { kind: "me" };
const NOBODY: Owner = { kind: "nobody" };
const UNKNOWN: Term = { owner: NOBODY, epoch: 0 };

export class Owners {
  readonly #options: OwnersOptions;
  #terms: Term[];
  #peers: readonly PeerNode[] = [];
  #reads: number | null = null;
  readonly #listeners = new Set<() => void>();

  constructor(options: OwnersOptions) {
    this.#options = options;
    this.#terms = Array.from({ length: options.partitions }, () => UNKNOWN);
  }

  /** The highest version of events that every node can read; null until the store was read, when no node is known as an owner. */
  get reads(): number | null {
    return this.#reads;
  }

  update({ incarnation, nodes, partitions }: Membership): void {
    const { url } = this.#options;
    // A member with this node's URL is an earlier process of this node. It has ended, so it cannot be asked.
    this.#peers = nodes.filter((node) => node.url !== url);
    this.#reads = Math.min(...nodes.map(({ reads }) => reads));
    const byIncarnation = new Map(
      this.#peers.map((node): [string, Owner] => [
        node.incarnation,
        { kind: "peer", url: node.url, incarnation: node.incarnation },
      ]),
    );
    byIncarnation.set(incarnation, ME);
    const terms = this.#terms.map(() => UNKNOWN);
    for (const { partition, owner, epoch } of partitions)
      terms[partition] = { owner: byIncarnation.get(owner ?? "") ?? NOBODY, epoch };
    this.#become(terms);
  }

  /** Called when this node begins to serve these partitions. */
  taken(owned: readonly Ownership[]): void {
    const terms = [...this.#terms];
    for (const { partition, epoch } of owned) terms[partition] = { owner: ME, epoch };
    this.#become(terms);
  }

  /** Called when this node has given up these partitions. */
  lost(partitions: readonly number[]): void {
    const terms = [...this.#terms];
    for (const partition of partitions)
      if (terms[partition]?.owner === ME) terms[partition] = { ...terms[partition], owner: NOBODY };
    this.#become(terms);
  }

  ownerOf(execution: string): Owner {
    return this.#termOf(execution).owner;
  }

  ownerAt(partition: number): Owner {
    return this.#terms[partition]?.owner ?? NOBODY;
  }

  isMine(execution: string): boolean {
    return this.#termOf(execution).owner === ME;
  }

  /** Returns a text that names the owner of an execution and its epoch. If the text has changed, the execution has moved. */
  termOf(execution: string): string {
    const { owner, epoch } = this.#termOf(execution);
    return termName(owner, epoch);
  }

  get peers(): readonly PeerNode[] {
    return this.#peers;
  }

  refresh(): void {
    this.#options.refresh();
  }

  /** Calls `listener` whenever an owner changes. Returns a function that stops the calls. */
  onChange(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }

  #termOf(execution: string): Term {
    return this.#terms[partitionOf(execution, this.#options.partitions)] ?? UNKNOWN;
  }

  #become(terms: Term[]): void {
    const before = this.#terms;
    this.#terms = terms;
    const isSame = terms.every(({ owner, epoch }, i) => termName(owner, epoch) === nameAt(before, i));
    if (!isSame) for (const listener of [...this.#listeners]) listener();
  }
}

function nameAt(terms: readonly Term[], partition: number): string {
  const { owner, epoch } = terms[partition] ?? UNKNOWN;
  return termName(owner, epoch);
}

function termName(owner: Owner, epoch: number): string {
  return `${owner.kind === "peer" ? owner.incarnation : owner.kind}/${epoch}`;
}
