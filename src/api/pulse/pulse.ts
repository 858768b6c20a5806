/**
 * What this node has done in the last minutes, second by second: executions started and ended, tasks settled and tried
 * again, how long tasks waited and how long they ran. Taken from commits as they are acknowledged, in memory of a fixed
 * size. Waits are measured at samples: from the commit that brought a task to the start of the attempt that settled it.
 */
import { decodeEntry, type Entry } from "../../kernel/journal-entry.ts";
import type { Commit, CommitVerdict } from "../../store/store.ts";
import { PageTimes } from "./page-times.ts";

export const PULSE_FIELDS = [
  "started",
  "done",
  "failed",
  "cancelled",
  "tasksDone",
  "tasksFailed",
  "retries",
  "waitMs",
  "waits",
  "runMs",
  "runs",
] as const;

type Field = (typeof PULSE_FIELDS)[number];

/** Seconds that are kept. */
const SECONDS = 900;
/** Tasks of one event whose waits are looked at. */
const SAMPLES = 8;

/** The last seconds, the oldest first; `until` is the second after the last. */
export interface PulseShown extends Readonly<Record<Field, readonly number[]>> {
  readonly until: number;
}

export class Pulse {
  readonly #columns = Object.fromEntries(
    PULSE_FIELDS.map((field) => [field, new Float64Array(SECONDS)]),
  ) as Record<Field, Float64Array>;
  readonly #pages = new PageTimes();
  /** The newest second that anything was noted for. */
  #second = 0;

  /** Takes in a commit that was acknowledged at a time. */
  take(commit: Commit, verdict: CommitVerdict, now: number): void {
    if (verdict.kind !== "ok") return;
    const slot = this.#slot(now);
    for (const write of commit.writes) {
      if (write.create && verdict.exists.includes(write.execution)) continue;
      if (write.create) this.#add("started", slot, 1);
      for (const entry of write.entries) this.#entry(write.execution, entry, slot);
    }
  }

  /** The last so many seconds before a time; the one that is under way is left out. */
  show(seconds: number, now: number): PulseShown {
    this.#slot(now);
    const until = Math.floor(now / 1_000);
    const from = until - Math.min(seconds, SECONDS - 1);
    const read = (field: Field): number[] =>
      Array.from({ length: until - from }, (_, i) => this.#columns[field][(from + i) % SECONDS] as number);
    const columns = Object.fromEntries(PULSE_FIELDS.map((field) => [field, read(field)]));
    return { until, ...(columns as Record<Field, number[]>) };
  }

  #entry(execution: string, entry: Entry, slot: number): void {
    const end = entry.body.indexOf("\n");
    const header = end < 0 ? entry.body : entry.body.slice(0, end);
    if (!/"(?:tasks\.(?:settled|retrying|enumerated)|handler\.(?:started|finished)|finished)"/.test(header))
      return;
    for (const { event } of decodeEntry(entry))
      switch (event.kind) {
        case "finished":
          this.#add(event.status, slot, 1);
          break;
        case "handler.started":
          this.#pages.begin(execution, event, entry.at);
          break;
        case "tasks.enumerated":
          this.#pages.add(execution, event, entry.at);
          break;
        case "handler.finished":
          this.#pages.end(execution, event);
          break;
        case "tasks.retrying":
          this.#add("retries", slot, event.tasks.length);
          break;
        case "tasks.settled": {
          for (const status of event.statuses)
            if (status !== "cancelled") this.#add(status === "done" ? "tasksDone" : "tasksFailed", slot, 1);
          this.#sample(execution, { ...event, at: entry.at }, slot);
          break;
        }
        default:
      }
  }

  #sample(
    execution: string,
    event: {
      readonly phase: string;
      readonly visit: number;
      readonly handler: string;
      readonly tasks: readonly number[];
      readonly attempts: readonly number[];
      readonly ms: readonly number[];
      readonly at: number;
    },
    slot: number,
  ): void {
    const each = Math.max(1, Math.floor(event.tasks.length / SAMPLES));
    for (let i = 0; i < event.tasks.length; i += each) {
      const ms = event.ms[i] as number;
      this.#add("runMs", slot, ms);
      this.#add("runs", slot, 1);
      if (event.attempts[i] !== 1) continue;
      const since = this.#pages.find(execution, event, event.tasks[i] as number);
      if (since === null) continue;
      this.#add("waitMs", slot, Math.max(0, event.at - ms - since));
      this.#add("waits", slot, 1);
    }
  }

  #add(field: Field, slot: number, n: number): void {
    const column = this.#columns[field];
    column[slot] = (column[slot] as number) + n;
  }

  /** The slot of a time; those of seconds in which nothing happened are emptied on the way. */
  #slot(now: number): number {
    const second = Math.floor(now / 1_000);
    if (second > this.#second) {
      const gone = Math.min(SECONDS, second - this.#second);
      for (let i = 1; i <= gone; i++)
        for (const field of PULSE_FIELDS) this.#columns[field][(second - gone + i) % SECONDS] = 0;
      this.#second = second;
    }
    return this.#second % SECONDS;
  }
}

/** What several nodes have done, as if it were one. */
export function mergePulses(pulses: readonly PulseShown[]): PulseShown | null {
  const [first, ...others] = pulses;
  if (first === undefined) return null;
  const columns = PULSE_FIELDS.map((field) => {
    const sum = [...first[field]];
    for (const other of others) {
      // Clocks of nodes differ by a little: seconds are matched by their number.
      const shift = other.until - first.until + (first[field].length - other[field].length);
      for (let i = 0; i < sum.length; i++) sum[i] = (sum[i] as number) + (other[field][i - shift] ?? 0);
    }
    return [field, sum] as const;
  });
  return { until: first.until, ...(Object.fromEntries(columns) as Record<Field, number[]>) };
}
