/** Runs the auditor on the executions of a round, from time to time while they run and once at their end. */
import type { Audit } from "../../src/audit/auditor.ts";
import { showCount } from "../../src/cli/progress/phase-line.ts";
import type { RemoteRondo } from "../../src/client/connect.ts";
import { RondoError } from "../../src/std/rejection.ts";
import type { Round } from "./stage.ts";

/** The findings of the auditor over all executions of the round. */
export interface Found {
  readonly executions: number;
  readonly events: number;
  readonly tasks: number;
  readonly settled: number;
  readonly lost: number;
  readonly countedTwice: number;
  /** Other violations, one sentence each. */
  readonly findings: readonly string[];
  readonly at: number;
}

/** The executions of a round. */
export function executionsOf({ id, commands, script }: Round): string[] {
  return [id, commands, script];
}

/** The findings as a sentence. */
export function verdictOf({ lost, countedTwice, settled, findings }: Found): string {
  const more = findings.length === 0 ? "" : `; and: ${findings.slice(0, 3).join("; ")}`;
  return `${showCount(lost)} lost, ${showCount(countedTwice)} counted twice, of ${showCount(settled)} settled so far${more}`;
}

const LEAST_MS = 1_500;
/** The auditor may use at most one tenth of the time. */
const SHARE = 10;

export class AuditWatch {
  readonly #client: RemoteRondo;
  /** The newest findings. */
  found: Found | null = null;
  #timer: NodeJS.Timeout | null = null;

  constructor(client: RemoteRondo) {
    this.#client = client;
  }

  /** Audits these executions from time to time. The longer an audit takes, the longer the pause. */
  watch(executions: readonly string[]): void {
    this.stop();
    const again = (ms: number): void => {
      const timer = setTimeout(() => {
        const from = Date.now();
        this.audit(executions).then(
          () => this.#timer === timer && again(Math.max(LEAST_MS, (Date.now() - from) * SHARE)),
          // The server is closing, so nothing more can be audited.
          () => this.stop(),
        );
      }, ms);
      this.#timer = timer;
      timer.unref();
    };
    again(LEAST_MS);
  }

  stop(): void {
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#timer = null;
  }

  /** Audits the executions now; those that have not begun are left out. */
  async audit(executions: readonly string[]): Promise<Found> {
    const audits = (await Promise.all(executions.map((id) => this.#audit(id)))).filter((one) => one !== null);
    const sum = (field: "events" | "tasks" | "settled" | "lost" | "countedTwice"): number =>
      audits.reduce((total, audit) => total + audit[field], 0);
    this.found = {
      executions: audits.length,
      events: sum("events"),
      tasks: sum("tasks"),
      settled: sum("settled"),
      lost: sum("lost"),
      countedTwice: sum("countedTwice"),
      findings: audits.flatMap(({ findings }) => findings.map(({ message }) => message)),
      at: Date.now(),
    };
    return this.found;
  }

  async #audit(id: string): Promise<Audit | null> {
    try {
      return await this.#client.requester.json<Audit>(`/v1/executions/${encodeURIComponent(id)}/audit`);
    } catch (thrown) {
      if (thrown instanceof RondoError && thrown.code === "not_found") return null;
      throw thrown;
    }
  }
}
