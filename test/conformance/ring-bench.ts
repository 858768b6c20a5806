/** Ring nodes joined by hand: a test delivers tokens and answers one at a time, and sees every output. */
import type { RingInput, RingOutput } from "../../src/cluster/ring/io.ts";
import { RingNode } from "../../src/cluster/ring/ring-node.ts";
import type { RingSettings } from "../../src/cluster/ring/settings.ts";
import type { Membership } from "../../src/store/cluster-store.ts";
import { partitionOf } from "../../src/store/partition-of.ts";
import type { StoredTimer } from "../../src/store/store.ts";

type Of<K extends RingOutput["kind"]> = Extract<RingOutput, { kind: K }>;

/** A reading of the store: these nodes, each owning the partitions that follow its index, round robin. */
export function reading(urls: readonly string[], more: { now?: number; life?: number } = {}): Membership {
  const { now = 0, life = 1 } = more;
  const nodes = urls.map((url) => ({
    url,
    incarnation: `${url}#${life}`,
    leaseUntil: Number.POSITIVE_INFINITY,
    since: life,
    reads: 2,
  }));
  const ordered = nodes.toSorted((a, b) => (a.url < b.url ? -1 : 1));
  return {
    now,
    incarnation: "",
    leaseUntil: Number.POSITIVE_INFINITY,
    nodes,
    partitions: Array.from({ length: 8 }, (_, partition) => ({
      partition,
      owner: ordered[partition % nodes.length]?.incarnation ?? null,
      epoch: 1,
    })),
  };
}

/** An execution that lives in this partition of eight. */
export function executionIn(partition: number): string {
  for (let i = 0; ; i++) if (partitionOf(`e${i}`, 8) === partition) return `e${i}`;
}

/** Something that came out of a node. */
export interface Logged {
  readonly at: number;
  readonly url: string;
  readonly output: RingOutput;
}

export class RingBench {
  now = 1_000;
  readonly nodes = new Map<string, RingNode>();
  readonly log: Logged[] = [];
  /** Nodes that do not answer. */
  readonly down = new Set<string>();
  /** What a scan of the store finds. */
  rows: StoredTimer[] = [];
  readonly #settings: Partial<RingSettings>;
  #dealt = 0;

  constructor(urls: readonly string[], settings: Partial<RingSettings> = {}) {
    this.#settings = settings;
    for (const url of urls) this.join(url, reading(urls));
  }

  join(url: string, membership: Membership): void {
    this.nodes.set(url, new RingNode(url, this.now, this.#settings));
    this.members(url, membership);
    const own = membership.partitions.flatMap(({ partition, owner }) =>
      owner?.startsWith(`${url}#`) === true ? [partition] : [],
    );
    this.input(url, { kind: "owned", partitions: own });
  }

  members(url: string, membership: Membership): void {
    const incarnation = membership.nodes.find((node) => node.url === url)?.incarnation ?? "";
    this.input(url, { kind: "members", membership: { ...membership, incarnation } });
  }

  node(url: string): RingNode {
    return this.nodes.get(url) as RingNode;
  }

  input(url: string, input: RingInput): void {
    this.node(url).input(input, this.now);
    this.advance(url);
  }

  advance(url: string): void {
    for (const output of this.node(url).advance(this.now)) this.log.push({ at: this.now, url, output });
  }

  /** What has come out of a node so far. */
  of<K extends RingOutput["kind"]>(url: string, kind: K): Of<K>[] {
    return this.log.flatMap((one) =>
      one.url === url && one.output.kind === kind ? [one.output as Of<K>] : [],
    );
  }

  /** Takes the outputs that are not dealt with yet: the test does it by hand. */
  take(): Logged[] {
    const open = this.log.slice(this.#dealt);
    this.#dealt = this.log.length;
    return open;
  }

  /** Deals with what was posted, asked and scanned, and with what comes of it; no time passes. */
  settle(): void {
    for (let open = this.take(); open.length > 0; open = this.take())
      for (const { url, output } of open) this.#deal(url, output);
  }

  /** Time passes, everybody is awake when they asked to be; gives what came out. */
  sleep(ms: number): Logged[] {
    const from = this.log.length;
    const until = this.now + ms;
    for (;;) {
      const live = [...this.nodes.keys()].filter((url) => !this.down.has(url));
      for (const url of live) this.advance(url);
      this.settle();
      const next = Math.min(...live.map((url) => this.node(url).nextWakeAt()));
      if (Math.max(this.now + 1, next) > until) break;
      this.now = Math.max(this.now + 1, next);
    }
    this.now = until;
    return this.log.slice(from);
  }

  #deal(url: string, output: RingOutput): void {
    if (output.kind === "scan-timers") {
      const timers = this.rows.filter(
        ({ execution, due }) => due <= output.until && output.partitions.includes(partitionOf(execution, 8)),
      );
      this.input(url, { kind: "timers-scanned", timers });
    }
    if (output.kind !== "post-token" && output.kind !== "ask-state") return;
    const peer = this.down.has(output.to) ? undefined : this.nodes.get(output.to);
    if (output.kind === "ask-state")
      return this.input(url, { kind: "state", ask: output.ask, state: peer?.state() ?? null });
    const { to, token, post } = output;
    if (peer === undefined) return this.input(url, { kind: "token-failed", post });
    this.input(to, { kind: "token", from: url, token });
    this.input(url, { kind: "token-posted", post });
  }
}
