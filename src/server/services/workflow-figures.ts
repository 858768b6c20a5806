/**
 * Figures of workflows over hours and days: starts, outcomes, durations, by workflow and handler. The engine counts them after
 * its commits; every few seconds they are added to small documents of the store, one for each workflow and hour, and one for
 * each workflow and day. A commit writes nothing for them. A node that is killed loses the figures of its last seconds.
 */
import { isSubmissionName } from "../../commands/submission-definition.ts";
import { type HourFigures, middleOf, noOutcomes, type Outcomes } from "../../engine/views/figures.ts";
import { DamagedData } from "../../kernel/journal/damage.ts";
import type { Clock } from "../../std/clock.ts";
import { type Decode, KEPT, mapOf, number, object } from "../../std/decode.ts";
import { type DocumentForm, jsonForm, listDocuments, parseDocument } from "../../store/document-form.ts";
import { type Store, StoreFault } from "../../store/store.ts";

type Unit = "day" | "hour";

/** The stored figures of one workflow in an hour or on a day. */
export interface StoredFigures {
  readonly started: number;
  readonly runs: StoredOutcomes;
  /** By `phase/handler`. */
  readonly handlers: Readonly<Record<string, StoredOutcomes>>;
}

interface StoredOutcomes {
  readonly done: number;
  readonly failed: number;
  readonly cancelled: number;
  /** A histogram of durations: the number of executions or tasks in each bucket, by the number of the bucket. */
  readonly ms: Readonly<Record<string, number>>;
}

export const FIGURES_KIND = "figures";
const LENGTHS: Readonly<Record<Unit, number>> = { hour: 3_600_000, day: 86_400_000 };
const TIME_DIGITS = 15;
/** How often figures are stored. */
const EVERY_MS = 5_000;
/** The most handlers that one document of figures has. */
const HANDLERS_MAX = 300;
/** The most workflows whose figures wait to be stored after the store has failed. */
const PENDING_MAX = 10_000;
/** The most documents that one list reads. */
const LIST_MAX = 2_000;

const outcomes: Decode<StoredOutcomes> = object(
  { done: number, failed: number, cancelled: number, ms: mapOf(number) },
  KEPT,
);
const form: DocumentForm<StoredFigures> = jsonForm(
  FIGURES_KIND,
  object({ started: number, runs: outcomes, handlers: mapOf(outcomes) }, KEPT),
);

export interface WorkflowFiguresOptions {
  readonly store: Pick<Store, "getDocument" | "swapDocument" | "putDocument" | "listDocuments">;
  readonly clock: Clock;
  /** Returns the figures that were counted since the last call. */
  readonly take: () => readonly HourFigures[];
  /** Whether figures are stored at intervals. If not, they are stored only when they are read and when the server closes. */
  readonly isPeriodic: boolean;
  readonly onFault: (fault: Error) => void;
}

export class WorkflowFigures {
  readonly #options: WorkflowFiguresOptions;
  /** Figures that are not stored yet, by the id of their document. */
  readonly #pending = new Map<string, StoredFigures>();
  #cancel: () => void = () => undefined;
  #storing: Promise<void> = Promise.resolve();
  #isClosed = false;

  constructor(options: WorkflowFiguresOptions) {
    this.#options = options;
    if (options.isPeriodic) this.#later();
  }

  /** Stores the rest. */
  async close(): Promise<void> {
    this.#isClosed = true;
    this.#cancel();
    await this.store();
  }

  /** Adds new figures to the stored ones. */
  store(): Promise<void> {
    this.#storing = this.#storing.then(() => this.#store());
    return this.#storing;
  }

  /** The figures of a workflow for each hour or day that has any, in one project or in all. */
  async read(
    of: { readonly project?: string; readonly workflow: string },
    { unit, from, to }: { readonly unit: Unit; readonly from: number; readonly to: number },
  ): Promise<readonly { readonly at: number; readonly figures: StoredFigures }[]> {
    const step = LENGTHS[unit];
    const first = from - (from % step);
    const times = Array.from({ length: Math.floor((to - first) / step) + 1 }, (_, i) => first + i * step);
    const found = await Promise.all(
      times.map(async (at) => {
        const all = await this.#list(`${timeText(at)} ${unit} ${of.workflow}/`);
        return all.flatMap(({ rest, figures }) =>
          of.project === undefined || of.project === rest ? [figures] : [],
        );
      }),
    );
    return times.flatMap((at, i) => {
      const all = found[i] ?? [];
      return all.length === 0 ? [] : [{ at, figures: sumFigures(all) }];
    });
  }

  /** The figures of all workflows on the day of a time, in each project. */
  async ofDay(
    at: number,
  ): Promise<
    readonly { readonly workflow: string; readonly project: string; readonly figures: StoredFigures }[]
  > {
    const found = await this.#list(`${timeText(at - (at % LENGTHS.day))} day `);
    return found.map(({ rest, figures }) => {
      const [workflow = "", project = ""] = rest.split("/");
      return { workflow, project, figures };
    });
  }

  /** The figures in documents whose ids begin with a prefix, and the rest of each id. Damaged documents are left out. */
  async #list(
    prefix: string,
  ): Promise<readonly { readonly rest: string; readonly figures: StoredFigures }[]> {
    const page = await listDocuments(this.#options.store, form, {
      after: prefix,
      before: `${prefix}~`,
      max: LIST_MAX,
    });
    return page.flatMap((one) =>
      one.damage === undefined ? [{ rest: one.id.slice(prefix.length), figures: one.value }] : [],
    );
  }

  #later(): void {
    if (this.#isClosed) return;
    this.#cancel = this.#options.clock.after(EVERY_MS, () => void this.store().then(() => this.#later()));
  }

  async #store(): Promise<void> {
    for (const figures of this.#options.take()) this.#add(figures);
    try {
      for (const [id, more] of this.#pending) {
        await this.#merge(id, more);
        this.#pending.delete(id);
      }
    } catch (thrown) {
      // Figures that could not be stored are kept in memory and stored in the next round.
      if (!(thrown instanceof StoreFault)) throw thrown;
      this.#options.onFault(thrown);
    }
  }

  #add(figures: HourFigures): void {
    const { project, workflow, hour } = figures;
    if (isSubmissionName(workflow)) return;
    const day = hour - (hour % LENGTHS.day);
    for (const id of [
      idOf({ project, workflow, unit: "hour", at: hour }),
      idOf({ project, workflow, unit: "day", at: day }),
    ]) {
      const before = this.#pending.get(id);
      if (before === undefined && this.#pending.size >= PENDING_MAX) continue;
      const more = storedOf(figures);
      this.#pending.set(id, before === undefined ? more : sumFigures([before, more]));
    }
  }

  async #merge(id: string, more: StoredFigures): Promise<void> {
    const { store } = this.#options;
    try {
      for (;;) {
        const was = await store.getDocument(FIGURES_KIND, id);
        const body = JSON.stringify(was === null ? more : sumFigures([parseDocument(form, id, was), more]));
        if (await store.swapDocument(FIGURES_KIND, id, { was, body })) return;
      }
    } catch (thrown) {
      if (!(thrown instanceof DamagedData)) throw thrown;
      // The document is damaged: the figures of its hour or day are lost, and counting starts again.
      this.#options.onFault(thrown);
      await store.putDocument(FIGURES_KIND, id, JSON.stringify(more));
    }
  }
}

interface Place {
  readonly project: string;
  readonly workflow: string;
  readonly unit: Unit;
  readonly at: number;
}

/** The id begins with the time, so that retention finds old documents. */
function idOf({ project, workflow, unit, at }: Place): string {
  return `${timeText(at)} ${unit} ${workflow}/${project}`;
}

function timeText(at: number): string {
  return String(at).padStart(TIME_DIGITS, "0");
}

function storedOf({ started, runs, handlers }: HourFigures): StoredFigures {
  return {
    started,
    runs: outcomesOf(runs),
    handlers: Object.fromEntries(
      Array.from(handlers, ([name, of]) => [name, outcomesOf(of)] as const).slice(0, HANDLERS_MAX),
    ),
  };
}

function outcomesOf({ done, failed, cancelled, ms }: Outcomes): StoredOutcomes {
  return { done, failed, cancelled, ms: Object.fromEntries(ms) };
}

/** Adds figures up. */
export function sumFigures(all: readonly StoredFigures[]): StoredFigures {
  const names = [...new Set(all.flatMap(({ handlers }) => Object.keys(handlers)))].slice(0, HANDLERS_MAX);
  return {
    started: all.reduce((sum, { started }) => sum + started, 0),
    runs: sumOutcomes(all.map(({ runs }) => runs)),
    handlers: Object.fromEntries(
      names.map((name) => [name, sumOutcomes(all.flatMap(({ handlers }) => handlers[name] ?? []))]),
    ),
  };
}

function sumOutcomes(all: readonly StoredOutcomes[]): StoredOutcomes {
  const sum = noOutcomes();
  for (const { done, failed, cancelled, ms } of all) {
    sum.done += done;
    sum.failed += failed;
    sum.cancelled += cancelled;
    for (const [bucket, n] of Object.entries(ms))
      sum.ms.set(Number(bucket), (sum.ms.get(Number(bucket)) ?? 0) + n);
  }
  return outcomesOf(sum);
}

/** Returns a quantile of the durations of done executions or tasks, exact to about a tenth; null if none is done. */
export function quantileOf({ ms }: StoredOutcomes, share: number): number | null {
  const buckets = Object.entries(ms)
    .map(([bucket, n]) => [Number(bucket), n] as const)
    .sort(([a], [b]) => a - b);
  const total = buckets.reduce((sum, [, n]) => sum + n, 0);
  let left = Math.ceil(total * share);
  for (const [bucket, n] of buckets) {
    left -= n;
    if (left <= 0) return Math.round(middleOf(bucket));
  }
  return null;
}
