/** Prometheus metrics. Labels are routes, methods, statuses and names of handlers, never an execution, a worker or data. */
import { type IntervalHistogram, monitorEventLoopDelay } from "node:perf_hooks";
import { Counter, Gauge, Histogram, Registry } from "prom-client";
import type { Overview } from "../engine/io.ts";
import type { BrokerView } from "../protocol/broker-view.ts";
import type { Clock } from "../std/clock.ts";
import { decorate } from "../std/decorate.ts";
import type { CommitVerdict, ExecutionStore } from "../store/store.ts";
import { Pulse } from "./views/pulse.ts";
import { countWorkers } from "./worker-protocol/worker-views.ts";

/** How often the event loop delay is measured. Each measurement wakes the process. */
const LOOP_MS = 100;
const SECONDS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10];

export class Metrics {
  /** Activity of the last minutes, for the overview. */
  readonly pulse = new Pulse();
  readonly #registry = new Registry();
  readonly #delay: IntervalHistogram = monitorEventLoopDelay({ resolution: LOOP_MS });
  readonly #requests = this.#counter("rondo_http_requests_total", "HTTP requests answered", [
    "route",
    "method",
    "status",
  ]);
  readonly #requestSeconds = this.#histogram("rondo_http_request_seconds", "Time to answer", ["route"]);
  readonly #commits = this.#counter("rondo_commits_total", "Commits to the store", ["verdict"]);
  readonly #commitSeconds = this.#histogram("rondo_commit_seconds", "Time of one commit");
  readonly #streams = this.#gauge("rondo_sse_clients", "Open event streams");
  readonly #cutOff = this.#counter(
    "rondo_sse_cut_off_total",
    "Event streams that were closed because their clients read nothing",
  );

  /** The engine's figures for the current scrape of the metrics. */
  #seen: Overview | null = null;

  constructor() {
    this.#delay.enable();
    this.#gauge(
      "rondo_event_loop_lag_seconds",
      "Delay of the event loop since the last scrape, 99th percentile",
      () => {
        const lag = this.#delay.percentile(99) / 1e9;
        this.#delay.reset();
        return lag;
      },
    );
    this.#gauge("rondo_process_resident_bytes", "Resident memory", () => process.memoryUsage.rss());
  }

  /** Adds the engine's figures, which are read once per scrape. */
  watchEngine(read: () => Overview): void {
    this.pulse.totals = () => read().totals;
    const seen = (): Overview => {
      this.#seen ??= read();
      return this.#seen;
    };
    this.#gauge("rondo_open_leases", "Attempts and claims that workers hold", () => seen().leases);
    this.#gauge("rondo_resident_executions", "Executions in memory", () => seen().resident);
    this.#gauge("rondo_working_executions", "Executions in memory that have work", () => seen().working);
    this.#gauge("rondo_ready_tasks", "Tasks that could be granted now", () =>
      seen().ready.reduce((sum, { tasks }) => sum + tasks, 0),
    );
    this.#gauge("rondo_workers", "Workers connected", () => countWorkers(seen()).workers);
    this.#gauge(
      "rondo_worker_capacity",
      "Attempts that all workers can hold",
      () => countWorkers(seen()).capacity,
    );
    this.#total("rondo_executions_started_total", "Executions started", () => seen().totals.started);
    this.#totalBy("rondo_executions_ended_total", "Executions ended", () => seen().totals.ended);
    this.#totalBy("rondo_tasks_settled_total", "Tasks settled", () => seen().totals.settled);
    this.#byHandler(
      "rondo_handler_tasks_total",
      "Tasks settled, by handler",
      ["handler", "status"],
      (counter) => {
        for (const [handler, { runMs: _, ...counts }] of seen().totals.handlers)
          for (const [status, count] of Object.entries(counts))
            if (count > 0) counter.inc({ handler, status }, count);
      },
    );
    this.#byHandler(
      "rondo_handler_run_seconds_total",
      "Running time of the attempts that settled tasks, by handler",
      ["handler"],
      (counter) => {
        for (const [handler, { runMs }] of seen().totals.handlers) counter.inc({ handler }, runMs / 1_000);
      },
    );
  }

  /** Registers a counter whose values by handler are kept outside of the metrics library. */
  #byHandler(name: string, help: string, labelNames: string[], fill: (counter: Counter) => void): void {
    const collect = function (this: Counter): void {
      this.reset();
      fill(this);
    };
    new Counter({ name, help, labelNames, registers: [this.#registry], collect });
  }

  /** Adds metrics about the state of the RabbitMQ broker. */
  watchBroker(view: () => BrokerView): void {
    this.#gauge("rondo_broker_up", "1 while the broker takes messages", () =>
      view().state === "up" ? 1 : 0,
    );
    this.#gauge(
      "rondo_broker_queues",
      "Handlers of visits that have queues at the broker",
      () => view().queues,
    );
    this.#gauge("rondo_broker_unconfirmed", "Messages published and not confirmed", () => view().unconfirmed);
    this.#total("rondo_broker_published_total", "Messages that the broker confirmed", () => view().published);
    this.#total(
      "rondo_broker_receipts_total",
      "Receipts from the broker that the engine has counted",
      () => view().counted,
    );
    this.#total(
      "rondo_broker_dead_letters_total",
      "Messages from the broker that could not be used",
      () => view().deadLetters,
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

  committed(verdict: CommitVerdict, ms: number): void {
    this.#commits.inc({ verdict: verdict.kind });
    this.#commitSeconds.observe(ms / 1_000);
  }

  async text(): Promise<{ type: string; body: string }> {
    this.#seen = null;
    return { type: this.#registry.contentType, body: await this.#registry.metrics() };
  }

  close(): void {
    this.#delay.disable();
  }

  #counter(name: string, help: string, labelNames: string[] = []): Counter {
    return new Counter({ name, help, labelNames, registers: [this.#registry] });
  }

  /** Registers a counter whose value is kept outside of the metrics library. */
  #total(name: string, help: string, read: () => number): void {
    const collect = function (this: Counter): void {
      this.reset();
      this.inc(read());
    };
    new Counter({ name, help, registers: [this.#registry], collect });
  }

  /** Registers a counter with a status label whose values are kept outside of the metrics library. */
  #totalBy(name: string, help: string, read: () => Readonly<Record<string, number>>): void {
    const collect = function (this: Counter): void {
      this.reset();
      for (const [status, count] of Object.entries(read())) this.inc({ status }, count);
    };
    new Counter({ name, help, labelNames: ["status"], registers: [this.#registry], collect });
  }

  #histogram(name: string, help: string, labelNames: string[] = []): Histogram {
    return new Histogram({ name, help, labelNames, buckets: SECONDS, registers: [this.#registry] });
  }

  #gauge(name: string, help: string, read?: () => number): Gauge {
    return new Gauge({
      name,
      help,
      registers: [this.#registry],
      ...(read === undefined
        ? {}
        : {
            collect(this: Gauge) {
              this.set(read());
            },
          }),
    });
  }
}

/** Wraps a store so that every commit is counted and timed. */
export function withMetrics<S extends ExecutionStore>(store: S, metrics: Metrics, clock: Clock): S {
  return decorate<ExecutionStore>(store, {
    commit: async (content) => {
      const from = clock.now();
      const verdict = await store.commit(content);
      const now = clock.now();
      metrics.committed(verdict, now - from);
      metrics.pulse.record(content, verdict, now);
      return verdict;
    },
  }) as S;
}
