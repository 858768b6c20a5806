/**
 * Notifies the owners of executions that mail was stored for them. The mail itself is in the store, where the sender's commit put it. An
 * owner that gets the notice reads the mail at once. For partitions without an owner, or whose owner cannot be reached, the ring carries
 * a hint. At most one notice to a node is under way; partitions that are added meanwhile are in the next notice.
 */
import type { Owners } from "./owners.ts";
import type { PeerClient } from "./peer-client.ts";

export interface MailPosterParts {
  readonly owners: Pick<Owners, "ownerAt">;
  readonly client: Pick<PeerClient, "call">;
  /** Called when mail was stored in partitions that this node owns: scans this node's mailbox. */
  readonly scan: () => void;
  /** Adds a hint about a partition to the ring's token. */
  readonly hint: (partition: number) => void;
}

const POST_MS = 2_000;

export class MailPoster {
  readonly #parts: MailPosterParts;
  /** Partitions with new mail that the next notice to each owner names, by the owner's URL. */
  readonly #waiting = new Map<string, Set<number>>();

  constructor(parts: MailPosterParts) {
    this.#parts = parts;
  }

  /** Called when mail was stored for executions of these partitions. */
  stored(partitions: readonly number[]): void {
    const { owners, scan, hint } = this.#parts;
    for (const partition of partitions) {
      const owner = owners.ownerAt(partition);
      if (owner.kind === "me") scan();
      else if (owner.kind === "nobody") hint(partition);
      else this.#add(owner.url, partition);
    }
  }

  #add(url: string, partition: number): void {
    const waiting = this.#waiting.get(url);
    if (waiting !== undefined) {
      waiting.add(partition);
      return;
    }
    this.#waiting.set(url, new Set([partition]));
    void this.#post(url);
  }

  async #post(url: string): Promise<void> {
    const { client, hint } = this.#parts;
    for (
      let next = this.#waiting.get(url);
      next !== undefined && next.size > 0;
      next = this.#waiting.get(url)
    ) {
      const partitions = [...next];
      this.#waiting.set(url, new Set());
      const { kind } = await client.call(url, "mail", { partitions }, { timeoutMs: POST_MS });
      if (kind !== "answered") for (const partition of partitions) hint(partition);
    }
    this.#waiting.delete(url);
  }
}
