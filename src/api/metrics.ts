/**
 * Figures for Prometheus, behind a small facade: nothing else names the library. Labels are routes, methods and
 * statuses; never an execution, a worker or a user's text.
 */
import { type IntervalHistogram, monitorEventLoopDelay } from "node:perf_hooks";
import { Counter, Gauge, Histogram, Registry } from "prom-client";
import type { Overview } from "../engine/io.ts";
import { decodeEntry, type Entry } from "../kernel/journal-entry.ts";
import type { Clock } from "../std/clock.ts";
import type { Commit, CommitVerdict, Store } from "../store/store.ts";
import { Pulse } from "./pulse/pulse.ts";

const SECONDS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10];

export class Metrics {
  /** What was done in the last minutes, for the overview. */
  readonly pulse = new Pulse();
  readonly #registry = new Registry();
  readonly #delay: IntervalHistogram = monitorEventLoopDelay({ resolution: 20 });
  readonly #requests = this.#counter("rondo_http_requests_total", "HTTP requests answered", [
    "route",
    "method",
    "status",
  ]);
  readonly #requestSeconds = this.#histogram("rondo_http_request_seconds", "Time to answer", ["route"]);
  readonly #started = this.#counter("rondo_executions_started_total", "Executions started");
  readonly #ended = this.#counter("rondo_executions_ended_total", "Executions ended", ["status"]);
  readonly #settled = this.#counter("rondo_tasks_settled_total", "Tasks settled", ["status"]);
  readonly #commits = this.#counter("rondo_commits_total", "Commits to the store", ["verdict"]);
  readonly #commitSeconds = this.#histogram("rondo_commit_seconds", "Time of one commit");
  readonly #streams = this.#gauge("rondo_sse_clients", "Open event streams");
  readonly #cutOff = this.#counter(
    "rondo_sse_cut_off_total",
    "Event streams cut off: their clients read nothing",
  );

  constructor() {
    this.#delay.enable();
    this.#gauge(
      "rondo_event_loop_lag_seconds",
      "Delay of the event loop since the last look, 99th percentile",
      () => {
        const lag = this.#delay.percentile(99) / 1e9;
        this.#delay.reset();
        return lag;
      },
    );
    this.#gauge("rondo_process_resident_bytes", "Resident memory", () => process.memoryUsage.rss());
  }

  /** Adds what the engine holds now, looked up when somebody asks. */
  watchEngine(overview: () => Overview): void {
    this.#gauge("rondo_open_leases", "Attempts and claims that workers hold", () => overview().leases);
    this.#gauge("rondo_resident_executions", "Executions in memory", () => overview().resident);
    this.#gauge(
      "rondo_working_executions",
      "Executions with work, of those in memory",
      () => overview().working,
    );
    this.#gauge("rondo_ready_tasks", "Tasks that could be given out now", () =>
      overview().ready.reduce((sum, { tasks }) => sum + tasks, 0),
    );
    this.#gauge("rondo_workers", "Workers connected", () => overview().workers.length);
    this.#gauge("rondo_worker_capacity", "Attempts that all workers can hold", () =>
      overview().workers.reduce((sum, { capacity }) => sum + capacity, 0),
    );
  }

  request(request: { route: string; method: string; status: number; ms: number }): void {
    const { route, method, status, ms } = request;
    this.#requests.inc({ route, method, status: String(status) });
    this.#requestSeconds.observe({ route }, ms / 1_000);
  }

  streamOpened(): void {
    this.#streams.inc();
  }

  streamEnded(isCutOff: boolean): void {
    this.#streams.dec();
    if (isCutOff) this.#cutOff.inc();
  }

  committed(commit: Commit, verdict: CommitVerdict, ms: number): void {
    this.#commits.inc({ verdict: verdict.kind });
    this.#commitSeconds.observe(ms / 1_000);
    if (verdict.kind !== "ok") return;
    for (const write of commit.writes) {
      if (write.create && verdict.exists.includes(write.execution)) continue;
      if (write.create) this.#started.inc();
      for (const entry of write.entries) this.#count(entry);
    }
  }

  /** The text that Prometheus reads. */
  async text(): Promise<{ type: string; body: string }> {
    return { type: this.#registry.contentType, body: await this.#registry.metrics() };
  }

  close(): void {
    this.#delay.disable();
  }

  #count(entry: Entry): void {
    const end = entry.body.indexOf("\n");
    const header = end < 0 ? entry.body : entry.body.slice(0, end);
    if (!header.includes('"tasks.settled"') && !header.includes('"finished"')) return;
    for (const { event } of decodeEntry(entry)) {
      if (event.kind === "finished") this.#ended.inc({ status: event.status });
      if (event.kind !== "tasks.settled") continue;
      const counts = new Map<string, number>();
      for (const status of event.statuses) counts.set(status, (counts.get(status) ?? 0) + 1);
      for (const [status, count] of counts) this.#settled.inc({ status }, count);
    }
  }

  #counter(name: string, help: string, labelNames: string[] = []): Counter {
    return new Counter({ name, help, labelNames, registers: [this.#registry] });
  }

  #histogram(name: string, help: string, labelNames: string[] = []): Histogram {
    return new Histogram({ name, help, labelNames, buckets: SECONDS, registers: [this.#registry] });
  }

  #gauge(name: string, help: string, look?: () => number): Gauge {
    return new Gauge({
      name,
      help,
      registers: [this.#registry],
      ...(look === undefined
        ? {}
        : {
            collect(this: Gauge) {
              this.set(look());
            },
          }),
    });
  }
}

/** Has every commit of a store counted. */
export function meterCommits(store: Store, metrics: Metrics, clock: Clock): void {
  const commit = store.commit.bind(store);
  store.commit = async (content) => {
    const from = clock.now();
    const verdict = await commit(content);
    const now = clock.now();
    metrics.committed(content, verdict, now - from);
    metrics.pulse.take(content, verdict, now);
    return verdict;
  };
}
