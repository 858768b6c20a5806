/** Has the node's auditor count the executions of a round anew, now and then while they run and once at their end. */
import type { Audit } from "../../src/audit/auditor.ts";
import { showCount } from "../../src/cli/progress/phase-line.ts";
import type { RemoteRondo } from "../../src/client/connect.ts";
import { RondoError } from "../../src/std/rejection.ts";
import type { Round } from "./stage.ts";

/** What the auditor found, over all executions of the round. */
export interface Found {
  readonly executions: number;
  readonly events: number;
  readonly tasks: number;
  readonly settled: number;
  readonly lost: number;
  readonly countedTwice: number;
  /** Whatever else must not be, in a sentence each. */
  readonly findings: readonly string[];
  readonly at: number;
}

/** The executions of a round. */
export function executionsOf({ id, commands, script }: Round): string[] {
  return [id, commands, script];
}

/** What was found, in words. */
export function verdictOf({ lost, countedTwice, settled, findings }: Found): string {
  const more = findings.length === 0 ? "" : `; and: ${findings.slice(0, 3).join("; ")}`;
  return `${showCount(lost)} lost, ${showCount(countedTwice)} counted twice, of ${showCount(settled)} settled so far${more}`;
}

const LEAST_MS = 1_500;
/** It may take up to this part of the time. */
const SHARE = 10;

export class AuditWatch {
  readonly #client: RemoteRondo;
  /** The newest. */
  found: Found | null = null;
  #timer: NodeJS.Timeout | null = null;

  constructor(client: RemoteRondo) {
    this.#client = client;
  }

  /** Looks at these every so often: the longer it takes, the more rarely. */
  watch(executions: readonly string[]): void {
    this.stop();
    const again = (ms: number): void => {
      const timer = setTimeout(() => {
        const from = Date.now();
        this.look(executions).then(
          () => this.#timer === timer && again(Math.max(LEAST_MS, (Date.now() - from) * SHARE)),
          // The server is closing: there is nothing more to be found.
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

  /** Looks at them now; those that have not begun are left out. */
  async look(executions: readonly string[]): Promise<Found> {
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
