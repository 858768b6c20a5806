/** A worker driven by hand: grants in, reports out, virtual time, no engine. */
import type { Outcome } from "../../src/kernel/message.ts";
import type { Beat, Grant, Report } from "../../src/protocol/work.ts";
import { VirtualClock } from "../../src/testing/virtual-clock.ts";
import type { HandlerCode } from "../../src/worker/handler-code.ts";
import type { ResultsSource } from "../../src/worker/results-reader.ts";
import type { ScriptOptions } from "../../src/worker/script-runner.ts";
import { Worker } from "../../src/worker/worker.ts";

export interface WorkerBenchOptions {
  readonly concurrency?: number;
  readonly results?: ResultsSource;
  /** Verdicts to give; by default everything is accepted. */
  readonly verdict?: (report: Report) => string;
  /** What an acknowledgement waits for. */
  readonly acknowledged?: () => Promise<void>;
  readonly scripts?: ScriptOptions;
  readonly secrets?: readonly string[];
}

export class WorkerBench {
  readonly clock = new VirtualClock(() => true);
  readonly reports: Report[] = [];
  readonly logs: unknown[][] = [];
  readonly bugs: unknown[] = [];
  readonly worker: Worker;

  constructor(code: Omit<HandlerCode, "use">, options: WorkerBenchOptions = {}) {
    const none: ResultsSource = {
      async *settled() {},
      checkpoint: (_execution, seq) => Promise.reject(new Error(`nothing is journaled at ${seq}`)),
    };
    this.worker = new Worker({
      clock: this.clock,
      results: options.results ?? none,
      concurrency: options.concurrency ?? 10,
      log: (_grant, item, level, parts) => this.logs.push([item.number, level, ...parts]),
      onBug: (thrown) => this.bugs.push(thrown),
      scripts: options.scripts,
      secrets: options.secrets,
      send: async (reports) => {
        this.reports.push(...reports);
        await options.acknowledged?.();
        return reports.map((report) => [options.verdict?.(report) ?? "accepted"]);
      },
    });
    this.worker.host("w", { use: "w.a", ...code });
  }

  /** Gives tasks and waits until all is quiet. */
  async give(tasks: readonly unknown[], more: Partial<Grant> = {}): Promise<Grant> {
    const grant = makeGrant(tasks, more);
    this.worker.take(grant);
    await this.clock.settle();
    return grant;
  }

  /** The outcomes reported so far, by task. */
  get outcomes(): Map<number, Outcome> {
    const found = new Map<number, Outcome>();
    for (const report of this.reports)
      if (report.kind === "receipts")
        for (const { task, outcome } of report.receipts) found.set(task, outcome);
    return found;
  }

  of<K extends Report["kind"]>(kind: K): Extract<Report, { kind: K }>[] {
    return this.reports.filter((report) => report.kind === kind) as Extract<Report, { kind: K }>[];
  }
}

/** A grant of these tasks; an enumeration has one item and no task. */
export function makeGrant(tasks: readonly unknown[], more: Partial<Grant> = {}): Grant {
  const isListing = more.do === "enumerate";
  return {
    do: "process",
    execution: "e1",
    workflow: "w",
    project: "default",
    phase: "a",
    visit: 1,
    handler: "a",
    use: "w.a",
    version: null,
    round: 1,
    epoch: 1,
    input: '{"n":1}',
    timeoutMs: null,
    heartbeatMs: 30_000,
    items: isListing
      ? [{ number: -1, attempt: 1, claim: 0, task: null, checkpoints: null }]
      : tasks.map((task, number) => ({
          number,
          attempt: 1,
          claim: 0,
          task: JSON.stringify(task),
          checkpoints: null,
        })),
    resume: null,
    command: null,
    phases: [],
    batch: 1,
    script: null,
    trace: null,
    ...more,
  };
}

/** The beat that names items of a grant. */
export function beatFor(grant: Grant, ...numbers: number[]): Beat {
  const { execution, phase, visit, handler, round, epoch } = grant;
  const attempts = grant.items
    .filter(({ number }) => numbers.includes(number))
    .map(({ number, attempt, claim }) => ({ task: number, attempt, claim }));
  return { execution, phase, visit, handler, round, epoch, attempts };
}
