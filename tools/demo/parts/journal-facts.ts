/** Counts the tasks of the demo's wide phase from the events of the journal, one by one. */
import type { ExecutionHandle } from "../../../src/index.ts";

interface Row {
  readonly n: number;
  readonly attempt: number;
  readonly status?: string;
  readonly reason?: string;
  readonly result?: unknown;
}

/** The reasons of retries after an error of the code itself. */
const THROWN: readonly string[] = ["failed", "exception"];

export class JournalFacts {
  /** How often each task number occurs in `tasks.settled`. */
  readonly #settled: Uint8Array;
  /** The highest ended attempt of each task. */
  readonly #ended: Uint8Array;
  /** The sum of all results. */
  sum = 0;
  /** Attempts whose code threw, and attempts that ended without their code: given back, or lost with their worker. */
  readonly retried = { thrown: 0, given: 0 };
  /** The number of settled tasks whose number does not exist. */
  foreign = 0;

  private constructor(tasks: number) {
    this.#settled = new Uint8Array(tasks);
    this.#ended = new Uint8Array(tasks);
  }

  /** Reads the events up to the one with the number `upTo`. */
  static async read(handle: ExecutionHandle<unknown>, tasks: number, upTo: number): Promise<JournalFacts> {
    const facts = new JournalFacts(tasks);
    for await (const event of handle.events({ detail: "full", follow: true })) {
      if (event["phase"] === "work" && event["handler"] === "work") facts.#count(event.kind, event["tasks"]);
      if (event.seq >= upTo) break;
    }
    return facts;
  }

  isSettled(task: number): boolean {
    return (this.#settled[task] as number) > 0;
  }

  endedAttempts(task: number): number {
    return this.#ended[task] as number;
  }

  /** The number of tasks that were settled never, once, and several times. */
  count(): { lost: number; once: number; twice: number } {
    const found = { lost: 0, once: 0, twice: 0 };
    for (const times of this.#settled) found[times === 0 ? "lost" : times === 1 ? "once" : "twice"]++;
    return found;
  }

  #count(kind: string, tasks: unknown): void {
    const isSettled = kind === "workflow.tasks.settled";
    if (!isSettled && kind !== "workflow.tasks.retrying") return;
    for (const { n, attempt, status, reason, result } of tasks as readonly Row[]) {
      if (n >= this.#settled.length) {
        this.foreign++;
        continue;
      }
      this.#ended[n] = Math.max(this.#ended[n] as number, attempt);
      if (!isSettled) this.retried[THROWN.includes(reason ?? "") ? "thrown" : "given"]++;
      else {
        this.#settled[n] = Math.min(255, (this.#settled[n] as number) + 1);
        if (status === "done") this.sum += result as number;
      }
    }
  }
}
