/**
 * The activity of this node in the last minutes, second by second, in memory of a fixed size. Starts, ends and settled tasks
 * are differences of the engine's totals, read once a second while there are commits. Waiting and running times are sampled: a
 * few tasks of a few commits in each second.
 */
import type { Totals } from "../../engine/views/totals.ts";
import { decodeReadable, type Entry } from "../../kernel/journal/journal-entry.ts";
import type { Commit, CommitVerdict } from "../../store/store.ts";
import { PULSE_FIELDS, type PulseSeconds } from "../schemas/node.ts";
import { PageTimes } from "./page-times.ts";

type Field = (typeof PULSE_FIELDS)[number];

/** The number of seconds of activity that are kept. */
const SECONDS = 900;
/** The most journal rows that are sampled in one second, and the most tasks of one event. */
const ROWS_PER_SECOND = 100;
const TASKS_PER_EVENT = 8;
/** A pattern for the kinds of events that are sampled. */
const WANTED = /"kind":"(?:tasks\.(?:settled|enumerated)|handler\.(?:started|finished))"/;

export class Pulse {
  readonly #columns = Object.fromEntries(
    PULSE_FIELDS.map((field) => [field, new Float64Array(SECONDS)]),
  ) as Record<Field, Float64Array>;
  readonly #pages = new PageTimes();
  /** The current second, and how many rows may still be sampled in it. */
  #second = 0;
  #rowsLeft = ROWS_PER_SECOND;
  #before: Readonly<Totals> | null = null;
  /** Returns the engine's totals since it was opened; null without an engine. */
  totals: (() => Readonly<Totals>) | null = null;

  /** Counts an acknowledged commit. */
  record(commit: Commit, verdict: CommitVerdict, now: number): void {
    this.#advance(now);
    if (verdict.kind !== "ok") return;
    for (const { execution, entries } of commit.writes)
      for (const entry of entries) {
        // Once no more rows may be sampled, the waits of the commit's tasks are not measured.
        if (this.#rowsLeft <= 0) {
          this.#pages.forget(execution);
          break;
        }
        const end = entry.body.indexOf("\n");
        if (!WANTED.test(end < 0 ? entry.body : entry.body.slice(0, end))) continue;
        this.#rowsLeft--;
        this.#sample(execution, entry);
      }
  }

  /** The activity of the last seconds before a time; the current second is left out. */
  show(seconds: number, now: number): PulseSeconds {
    this.#advance(now);
    const until = Math.floor(now / 1_000);
    const from = until - Math.min(seconds, SECONDS - 1);
    const read = (field: Field): number[] =>
      Array.from({ length: until - from }, (_, i) => this.#columns[field][(from + i) % SECONDS] as number);
    const columns = Object.fromEntries(PULSE_FIELDS.map((field) => [field, read(field)]));
    return { until, ...(columns as Record<Field, number[]>) };
  }

  #sample(execution: string, entry: Entry): void {
    for (const { event } of decodeReadable(entry))
      switch (event.kind) {
        case "handler.started":
          this.#pages.begin(execution, event, entry.at);
          break;
        case "tasks.enumerated":
          this.#pages.add(execution, event, entry.at);
          break;
        case "handler.finished":
          this.#pages.end(execution, event);
          break;
        case "tasks.settled": {
          const each = Math.max(1, Math.floor(event.tasks.length / TASKS_PER_EVENT));
          for (let i = 0; i < event.tasks.length; i += each) {
            const ms = event.ms[i] as number;
            this.#add("runMs", ms);
            this.#add("runs", 1);
            const since = this.#pages.find(execution, event, event.tasks[i] as number);
            if (event.attempts[i] !== 1 || since === null) continue;
            this.#add("waitMs", Math.max(0, entry.at - ms - since));
            this.#add("waits", 1);
          }
          break;
        }
        default:
      }
  }

  /** Closes past seconds: the totals of a second are known at its end, and seconds without activity are empty. */
  #advance(now: number): void {
    const second = Math.floor(now / 1_000);
    if (second <= this.#second) return;
    this.#settle();
    const gone = Math.min(SECONDS, second - this.#second);
    for (let i = 1; i <= gone; i++)
      for (const field of PULSE_FIELDS) this.#columns[field][(second - gone + i) % SECONDS] = 0;
    this.#second = second;
    this.#rowsLeft = ROWS_PER_SECOND;
  }

  #settle(): void {
    const totals = this.totals?.() ?? null;
    const before = this.#before;
    this.#before = totals;
    if (totals === null) return;
    this.#add("started", totals.started - (before?.started ?? 0));
    for (const status of ["done", "failed", "cancelled"] as const)
      this.#add(status, (totals.ended[status] ?? 0) - (before?.ended[status] ?? 0));
    this.#add("tasksDone", (totals.settled["done"] ?? 0) - (before?.settled["done"] ?? 0));
    this.#add("tasksFailed", (totals.settled["failed"] ?? 0) - (before?.settled["failed"] ?? 0));
  }

  #add(field: Field, n: number): void {
    const column = this.#columns[field];
    const slot = this.#second % SECONDS;
    column[slot] = (column[slot] as number) + n;
  }
}

/** Merges the activity of several nodes. */
export function mergePulses(pulses: readonly PulseSeconds[]): PulseSeconds | null {
  const [first, ...others] = pulses;
  if (first === undefined) return null;
  const columns = PULSE_FIELDS.map((field) => {
    const sum = [...first[field]];
    for (const other of others) {
      // The clocks of nodes differ a little. The seconds of two nodes are matched by their time, not by their position in the list.
      const shift = other.until - first.until + (first[field].length - other[field].length);
      for (let i = 0; i < sum.length; i++) sum[i] = (sum[i] as number) + (other[field][i - shift] ?? 0);
    }
    return [field, sum] as const;
  });
  return { until: first.until, ...(Object.fromEntries(columns) as Record<Field, number[]>) };
}
