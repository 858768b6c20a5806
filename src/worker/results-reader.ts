/** Reads results of earlier phases as a stream, for code in a worker. Rows are read when they are needed. */
import { brandFatal } from "../protocol/error-brands.ts";
import type { PhaseCounts } from "../protocol/work.ts";
import type { Json } from "../std/json.ts";
import type { PhasesReader, ResultsReader, TaskError } from "./handler-code.ts";

/** One handler in one visit, and the range of journal rows of that visit. */
export interface SettledAt {
  execution: string;
  phase: string;
  visit: number;
  handler: string;
  firstSeq: number;
  lastSeq: number;
}

/** The source of settled tasks and checkpoints: the store in process, the API for a remote worker. */
export interface ResultsSource {
  /** Reads the checkpoint at `seq` of an execution: the result of a step, the state after a run, or the error of a wait. */
  checkpoint(
    execution: string,
    seq: number,
  ): Promise<{ readonly result: string } | { readonly error: string }>;
  settled(
    at: SettledAt,
  ): AsyncIterable<{ readonly task: number; readonly status: string; readonly payload: string }>;
  /**
   * Reads the JSON texts of enumerated tasks by number. If it is missing or throws `TasksUnknown`, tasks cannot be read at this
   * worker.
   */
  tasks?(
    at: SettledAt,
    numbers: ReadonlySet<number>,
  ): AsyncIterable<{ readonly task: number; readonly text: string }>;
}

type Visit = PhaseCounts[number];

/** The `phases` object of a context. It shows the newest visit of each phase. */
export function readPhases(
  execution: string,
  counts: PhaseCounts,
  source: Pick<ResultsSource, "settled" | "tasks">,
  input = "null",
): PhasesReader {
  const phases: Record<string, unknown> = {};
  for (const newest of new Map(counts.map((visit) => [visit.phase, visit])).values()) {
    const read = { execution, source, input, visits: counts.filter(({ phase }) => phase === newest.phase) };
    Object.defineProperty(phases, newest.phase, { enumerable: true, get: () => readPhase(read, newest) });
  }
  return phases as PhasesReader;
}

interface Read {
  readonly execution: string;
  readonly source: Pick<ResultsSource, "settled" | "tasks">;
  /** The single task of a handler that enumerates none, as JSON text. */
  readonly input: string;
  readonly visits: readonly Visit[];
}

function readPhase(read: Read, visit: Visit): unknown {
  const names = visit.handlers.map(({ name }) => name).filter((name) => name !== "next");
  const [only] = names;
  if (names.length === 1 && only === visit.phase) {
    // The reader is also available under the handler's own name, for a map with one handler that has the name of its phase.
    const own = reader(read, visit, only);
    return only in own ? own : Object.defineProperty(own, only, { value: own });
  }
  return Object.fromEntries(names.map((name) => [name, reader(read, visit, name)]));
}

/** Reads the texts of tasks by their numbers; null if they cannot be read, as from a server of an earlier version. */
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

/** Thrown by a source whose server has no route for tasks. */
export class TasksUnknown extends Error {
  override name = "TasksUnknown";
}

/** The most results that `toArray` reads by default. */
const RESULTS_MAX = 10_000;

const NO_VISIT = { visit: 0, firstSeq: 1, lastSeq: 0, handlers: [] };

function reader(read: Read, visit: Visit, name: string): ResultsReader {
  const { phase, firstSeq, lastSeq } = visit;
  const { execution, source, input, visits } = read;
  const place = { execution, phase, visit: visit.visit, handler: name, firstSeq, lastSeq };
  const counts = visit.handlers.find((handler) => handler.name === name) ?? {
    total: 0,
    done: 0,
    failed: 0,
    value: null,
  };
  const where = name === phase ? `phase "${phase}"` : `handler "${name}" of phase "${phase}"`;
  async function* results(): AsyncGenerator<unknown> {
    if (place.visit > 0)
      for await (const { status, payload } of source.settled(place))
        if (status === "done") yield JSON.parse(payload) as Json;
  }
  async function* failures(): AsyncGenerator<{ task: number; data: unknown; error: TaskError }> {
    if (place.visit === 0) return;
    // A later round may settle a task again.
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
      throw wrongCount(`${where} has no result`);
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

/** The error of code that expects another number of results. It is fatal: the results of a phase stay the same. */
function wrongCount(message: string): Error {
  return brandFatal(new Error(message));
}
