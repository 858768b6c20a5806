/**
 * Hints between nodes by LISTEN and NOTIFY. They are sent in batches outside of commits, because commits with NOTIFY wait for
 * each other.
 */
import type pg from "pg";
import type { Clock } from "../../std/clock.ts";
import type { Hint } from "../cluster-store.ts";
import { StoreFault } from "../store.ts";
import type { Link, Statement } from "./link.ts";

const GATHER_MS = 20;
/** The most partitions that a hint names: its payload stays below the limit of PostgreSQL, 8,000 bytes. */
const PARTITIONS_MAX = 1_024;

const NOTIFY: Statement = { name: "notify", text: "SELECT pg_notify($1, $2)" };

export class Hints {
  readonly #link: Link;
  readonly #clock: Clock;
  readonly #channel: string;
  #callback: ((hint: Hint) => void) | null = null;
  readonly #mail = new Set<number>();
  #members = false;
  #cancel: (() => void) | null = null;

  constructor(link: Link, clock: Clock, channel: string) {
    this.#link = link;
    this.#clock = clock;
    this.#channel = channel;
  }

  onHint(callback: (hint: Hint) => void): void {
    this.#callback = callback;
  }

  /** Starts to listen for hints on each new connection. */
  async listen(client: pg.Client): Promise<void> {
    const own = (client as unknown as { readonly processID: number }).processID;
    client.on("notification", ({ processId, payload }) => {
      if (processId !== own) this.#receive(payload ?? "");
    });
    await client.query(`LISTEN "${this.#channel}"`);
  }

  mail(partitions: Iterable<number>): void {
    for (const partition of partitions) this.#mail.add(partition);
    if (this.#mail.size > 0) this.#sendSoon();
  }

  members(): void {
    this.#members = true;
    this.#sendSoon();
  }

  async flush(): Promise<void> {
    this.#cancel?.();
    this.#cancel = null;
    const partitions = [...this.#mail].sort((a, b) => a - b).slice(0, PARTITIONS_MAX);
    const payload = [
      ...(this.#members ? ["members"] : []),
      ...(partitions.length > 0 ? [partitions.join()] : []),
    ];
    this.#mail.clear();
    this.#members = false;
    if (payload.length > 0)
      await this.#link.run(NOTIFY, [this.#channel, payload.join(" ")], { writes: false });
  }

  #sendSoon(): void {
    this.#cancel ??= this.#clock.after(GATHER_MS, () => {
      this.flush().catch((error: unknown) => {
        // A lost hint only costs time: the next scan of the store finds the work.
        if (!(error instanceof StoreFault)) throw error;
      });
    });
  }

  #receive(payload: string): void {
    for (const part of payload.split(" ")) {
      if (part === "members") this.#callback?.({ kind: "members" });
      else this.#callback?.({ kind: "mail", partitions: part.split(",").map(Number) });
    }
  }
}
