/** The cluster store port over `MemoryTables` that several nodes share. A given clock is used as the database's clock. */
import type { Clock } from "../../std/clock.ts";
import { type Random, systemRandom } from "../../std/random.ts";
import { type ClusterStore, type Hint, LEASE_MS, type Membership } from "../cluster-store.ts";
import { partitionOf } from "../partition-of.ts";
import type { Commit, CommitVerdict, MailboxMessage, Ownership, StoreInfo } from "../store.ts";
import { MemoryStore } from "./memory-store.ts";
import type { MemoryTables } from "./memory-tables.ts";

export interface MemoryClusterOptions {
  readonly url: string;
  readonly clock: Pick<Clock, "now">;
  readonly random?: Random;
  readonly leaseMs?: number;
}

export class MemoryClusterStore extends MemoryStore implements ClusterStore {
  readonly #shared: MemoryTables;
  readonly #options: MemoryClusterOptions;
  #partitions = 1;
  #incarnation: string | null = null;
  #callback: ((hint: Hint) => void) | null = null;

  constructor(tables: MemoryTables, options: MemoryClusterOptions) {
    super(tables);
    this.#shared = tables;
    this.#options = options;
  }

  override async open(): Promise<StoreInfo> {
    const info = this.#shared.info([]);
    this.#partitions = info.partitions;
    this.isOpen = true;
    return info;
  }

  override async commit(commit: Commit): Promise<CommitVerdict> {
    const tables = this.opened();
    const verdict = tables.commit(commit, this.#incarnation ?? "");
    tables.settle();
    const messages = commit.writes.flatMap((write) => write.mail ?? []);
    const own = commit.fence.epochs;
    if (verdict.kind === "ok") this.#hintMail(messages.filter(({ to }) => !(this.#partitionOf(to) in own)));
    return verdict;
  }

  override async purge(ids: readonly string[]): Promise<void> {
    this.opened().purge(ids, this.#incarnation ?? "");
  }

  async now(): Promise<number> {
    return this.#options.clock.now();
  }

  async renew(): Promise<Membership> {
    const { url, clock, random = systemRandom, leaseMs = LEASE_MS } = this.#options;
    const next = `${random.u32().toString(16)}${random.u32().toString(16)}`;
    const renewal = { url, incarnation: this.#incarnation, next, leaseMs };
    const before = this.#incarnation;
    const membership = this.opened().renew(renewal, clock.now());
    this.#incarnation = membership.incarnation;
    if (before !== this.#incarnation) this.#hint({ kind: "members" });
    return membership;
  }

  async take(partitions: readonly number[]): Promise<readonly Ownership[]> {
    return this.opened().take(this.#incarnation ?? "", partitions, this.#options.clock.now());
  }

  async release(partitions: readonly number[], options: { clean: boolean }): Promise<void> {
    this.opened().release(this.#incarnation ?? "", partitions, options);
    this.#hint({ kind: "members" });
  }

  async leave(options: { clean: boolean }): Promise<void> {
    const tables = this.opened();
    if (this.#incarnation === null) return;
    tables.leave(this.#incarnation, options);
    this.#incarnation = null;
    this.#hint({ kind: "members" });
  }

  async post(messages: readonly MailboxMessage[]): Promise<void> {
    this.opened().post(messages);
    this.#hintMail(messages);
  }

  onHint(callback: (hint: Hint) => void): void {
    if (this.#callback !== null) this.#shared.hinted.delete(this.#callback);
    this.#callback = callback;
    this.#shared.hinted.add(callback);
  }

  override async close(options: { clean: boolean }): Promise<void> {
    if (!this.isOpen) return;
    await this.leave(options);
    if (this.#callback !== null) this.#shared.hinted.delete(this.#callback);
    this.isOpen = false;
  }

  #partitionOf(execution: string): number {
    return partitionOf(execution, this.#partitions);
  }

  #hintMail(messages: readonly MailboxMessage[]): void {
    if (messages.length === 0) return;
    const partitions = new Set(messages.map(({ to }) => this.#partitionOf(to)));
    this.#hint({ kind: "mail", partitions: [...partitions].sort((a, b) => a - b) });
  }

  #hint(hint: Hint): void {
    for (const callback of this.#shared.hinted) if (callback !== this.#callback) callback(hint);
  }
}
