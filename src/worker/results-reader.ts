/** Reads results of earlier phases as a stream, for the code of handlers. Rows are read when they are needed. */
import { brandFatal } from "../protocol/error-brands.ts";
import type { PhaseCounts } from "../protocol/work.ts";
import type { Json } from "../std/json.ts";
import type { HandlerCode, PhasesReader, ResultsReader, TaskError } from "./handler-code.ts";

/** Identifies the results of one handler in one visit, with the range of journal rows of that visit. */
export interface SettledAt {
  execution: string;
  phase: string;
  visit: number;
  handler: string;
  firstSeq: number;
  /** The number of the last row; 0 means the end of the journal. */
  lastSeq: number;
  /** Set for results of a child: the attempt that reads them, and the name under which its task runs the child. */
  by?: { readonly attempt: string; readonly child: string };
}

/** The source of settled tasks and checkpoints: the store for a worker in the node's process, the API for a remote worker. */
export interface ResultsSource {
  /**
   * Reads the checkpoint of an execution at the journal position `seq`: the result of a step, the state after a run, or the
   * error of a wait.
   */
  checkpoint(
    execution: string,
    seq: number,
  ): Promise<{ readonly result: string } | { readonly error: string }>;
  settled(
    at: SettledAt,
  ): AsyncIterable<{ readonly task: number; readonly status: string; readonly payload: string }>;
  /**
   * Reads a page of the items of a `map`, counted from 0, for the child that runs them; null after the last page. If this
   * method is missing, this worker cannot read items.
   */
  items?(execution: string, page: number): Promise<string | null>;
  /**
   * Reads the JSON texts of enumerated tasks by number. If this method is missing or throws `TasksUnknown`, this worker cannot
   * read tasks.
   */
  tasks?(
    at: SettledAt,
    numbers: ReadonlySet<number>,
  ): AsyncIterable<{ readonly task: number; readonly text: string }>;
}

type Visit = PhaseCounts[number];

/**
 * Makes the `phases` object of a context, which shows the newest visit of each phase. `known` has the phases of the code's own workflow.
 * The code may be newer than the definition of the execution; a phase that the definition lacks counts as not visited and has no results.
 */
export function readPhases(
  execution: string,
  counts: PhaseCounts,
  source: Pick<ResultsSource, "settled" | "tasks">,
  { input = "null", known = {} }: { readonly input?: string; readonly known?: HandlerCode["phases"] } = {},
): PhasesReader {
  const phases: Record<string, unknown> = {};
  for (const [phase, handlers] of Object.entries(known)) {
    const read = { execution, source, input, visits: [] };
    const names = handlers.map((name) => ({ name, ...NO_TASKS }));
    const absent = { ...NO_VISIT, phase, handlers: names };
    Object.defineProperty(phases, phase, {
      enumerable: true,
      configurable: true,
      get: () => readPhase(read, absent),
    });
  }
  for (const newest of new Map(counts.map((visit) => [visit.phase, visit])).values()) {
    const read = { execution, source, input, visits: counts.filter(({ phase }) => phase === newest.phase) };
    Object.defineProperty(phases, newest.phase, { enumerable: true, get: () => readPhase(read, newest) });
  }
  return phases as PhasesReader;
}

interface Read {
  readonly execution: string;
  readonly source: Pick<ResultsSource, "settled" | "tasks">;
  /** Returns the single task of a handler without an enumeration, as JSON text. */
  readonly input: string;
  readonly visits: readonly Visit[];
}

function readPhase(read: Read, visit: Visit): unknown {
  const names = visit.handlers.map(({ name }) => name).filter((name) => name !== "next");
  const [only] = names;
  if (names.length === 1 && only === visit.phase) {
    // The reader is also available under the handler's name, for a map of handlers that has one handler with the name of its phase.
    const own = reader(read, visit, only);
    return only in own ? own : Object.defineProperty(own, only, { value: own });
  }
  return Object.fromEntries(names.map((name) => [name, reader(read, visit, name)]));
}

/** Reads the texts of tasks by their numbers. Returns null if they cannot be read, for example from a server of an earlier version. */
async function textsOf(
  source: Pick<ResultsSource, "tasks">,
  place: SettledAt,
  wanted: ReadonlyMap<number, unknown>,
): Promise<ReadonlyMap<number, string> | null> {
  if (source.tasks === undefined) return null;
  const texts = new Map<number, string>();
  if (wanted.size === 0) return texts;
  try {
    for await (const { task, text } of source.tasks(place, new Set(wanted.keys()))) texts.set(task, text);
  } catch (thrown) {
    if (thrown instanceof TasksUnknown) return null;
    throw thrown;
  }
  return texts;
}

/** Thrown by a source of results whose server has no route to read tasks. */
export class TasksUnknown extends Error {
  override name = "TasksUnknown";
}

/** The most results that `toArray` reads by default. */
const RESULTS_MAX = 10_000;

const NO_TASKS = { total: 0, done: 0, failed: 0, value: null };
const NO_VISIT = { visit: 0, firstSeq: 1, lastSeq: 0, handlers: [] };

function reader(read: Read, visit: Visit, name: string): ResultsReader {
  const { phase, firstSeq, lastSeq } = visit;
  const { execution, source, input, visits } = read;
  const place = { execution, phase, visit: visit.visit, handler: name, firstSeq, lastSeq };
  const counts = visit.handlers.find((handler) => handler.name === name) ?? NO_TASKS;
  const where = name === phase ? `phase "${phase}"` : `handler "${name}" of phase "${phase}"`;
  async function* results(): AsyncGenerator<unknown> {
    if (place.visit > 0)
      for await (const { status, payload } of source.settled(place))
        if (status === "done") yield JSON.parse(payload) as Json;
  }
  async function* failures(): AsyncGenerator<{ task: number; data: unknown; error: TaskError }> {
    if (place.visit === 0) return;
    // Only the last receipt of a task counts, because a later round may settle the task again.
    const failed = new Map<number, string>();
    for await (const { task, status, payload } of source.settled(place)) {
      failed.delete(task);
      if (status === "failed") failed.set(task, payload);
    }
    const texts = await textsOf(source, place, failed);
    const isInput = texts !== null && texts.size === 0;
    for (const [task, payload] of failed) {
      const text = isInput ? input : texts?.get(task);
      const data = text === undefined ? undefined : (JSON.parse(text) as Json);
      yield { task, data, error: JSON.parse(payload) as TaskError };
    }
  }
  async function toArray({ max = RESULTS_MAX }: { readonly max?: number } = {}): Promise<unknown[]> {
    const all: unknown[] = [];
    for await (const result of results())
      if (all.push(result) > max)
        throw wrongCount(`${where} has more than ${max} results: raise max, or use results()`);
    return all;
  }
  return {
    count: counts.done,
    failed: counts.failed,
    total: counts.total,
    visits: visits.filter((other) => other.visit > 0).length,
    results,
    failures,
    toArray,
    async first() {
      for await (const result of results()) return result;
      return undefined;
    },
    async only() {
      if (counts.done > 1) throw wrongCount(`${where} has ${counts.done} results, not one`);
      for await (const result of results()) return result;
      const isAbsent = visits.length === 0 && visit.visit === 0;
      throw wrongCount(`${where} ${isAbsent ? ABSENT : "has no result"}`);
    },
    async reduce(fold, initial) {
      let sum = initial;
      for await (const result of results()) sum = await fold(sum, result);
      return sum;
    },
    visit: (n) => reader(read, visits.find((other) => other.visit === n) ?? { ...NO_VISIT, phase }, name),
    value: counts.value === null ? null : (JSON.parse(counts.value) as Json),
  };
}

/** The name of the only phase, and of its only handler, in a workflow that runs the items of a `map`. */
export const MAP_PHASE = "items";

/** A child that has run the items of a `map`. */
export interface MapChild {
  /** The name of the map. */
  readonly name: string;
  readonly execution: string;
  /** The attempt that reads the results. */
  readonly attempt: string;
}

/** The numbers of tasks that a child of a `map` returns as its output. */
export interface MapCounts {
  readonly total: number;
  readonly done: number;
  readonly failed: number;
}

/** Returns a reader of the results of a `map` whose items ran as tasks of a child. Its `toArray` returns them in the order of the items. */
export function readMap(
  { name, execution, attempt }: MapChild,
  counts: MapCounts,
  source: Pick<ResultsSource, "settled" | "tasks">,
): ResultsReader {
  const by = { attempt, child: name };
  async function* settled(at: SettledAt): ReturnType<ResultsSource["settled"]> {
    let left = counts.done;
    for await (const one of source.settled({ ...at, by })) {
      if (one.status === "done") left--;
      yield one;
    }
    if (left > 0) throw new Error(`map "${name}": its results were purged with execution ${execution}`);
  }
  const { tasks } = source;
  const own: Read["source"] = {
    settled,
    ...(tasks === undefined ? {} : { tasks: (at, numbers) => tasks.call(source, { ...at, by }, numbers) }),
  };
  const handlers = [{ name: MAP_PHASE, ...counts, value: null }];
  const visit = { phase: MAP_PHASE, visit: 1, firstSeq: 1, lastSeq: 0, handlers };
  const read = reader({ execution, source: own, input: "null", visits: [visit] }, visit, MAP_PHASE);
  return {
    ...read,
    async toArray({ max = RESULTS_MAX } = {}) {
      if (counts.done > max)
        throw wrongCount(
          `map "${name}" has ${counts.done} results, more than max (${max}): raise max, or use results()`,
        );
      const all: { readonly task: number; readonly payload: string }[] = [];
      const place = { execution, phase: MAP_PHASE, visit: 1, handler: MAP_PHASE, firstSeq: 1, lastSeq: 0 };
      for await (const one of settled(place)) if (one.status === "done") all.push(one);
      return all.sort((a, b) => a.task - b.task).map(({ payload }) => JSON.parse(payload) as Json);
    },
  };
}

const ABSENT =
  "has no result: it is not in the definition with which this execution was started (check `count` before, or give the workflow a version)";

/**
 * Makes the error for code that expects another number of results. The task is not retried, because the results of a phase stay the same.
 */
function wrongCount(message: string): Error {
  return brandFatal(new Error(message));
}
