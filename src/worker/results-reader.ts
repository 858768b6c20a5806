/** Results of earlier phases as a stream, for code that runs in a worker. Rows are read as they are needed. */

import type { PhaseCounts } from "../protocol/work.ts";
import type { Json } from "../std/json.ts";
import type { PhasesReader, ResultsReader } from "./handler-code.ts";

/** Where settled tasks come from: the store in process, the API for a remote worker. */
export interface ResultsSource {
  settled(at: {
    execution: string;
    phase: string;
    visit: number;
    handler: string;
    firstSeq: number;
    lastSeq: number;
  }): AsyncIterable<{ readonly task: number; readonly status: string; readonly payload: string }>;
}

type Visit = PhaseCounts[number];

/** The `phases` object of a context. */
export function readPhases(execution: string, counts: PhaseCounts, source: ResultsSource): PhasesReader {
  const phases: Record<string, unknown> = {};
  for (const visit of counts)
    Object.defineProperty(phases, visit.phase, {
      enumerable: true,
      get: () => readPhase(execution, visit, source),
    });
  return phases as PhasesReader;
}

function readPhase(execution: string, visit: Visit, source: ResultsSource): unknown {
  const handlers = visit.handlers.filter((handler) => handler.name !== "next");
  const [only] = handlers;
  const isUnnamed = handlers.length === 1 && only !== undefined && only.name === visit.phase;
  if (isUnnamed) {
    // Also under its own name, for a map of one handler that is named like its phase.
    const own = reader(execution, visit, only, source);
    return only.name in own ? own : Object.defineProperty(own, only.name, { value: own });
  }
  return Object.fromEntries(
    handlers.map((handler) => [handler.name, reader(execution, visit, handler, source)]),
  );
}

function reader(
  execution: string,
  visit: Visit,
  handler: Visit["handlers"][number],
  source: ResultsSource,
): ResultsReader {
  const { phase, firstSeq, lastSeq } = visit;
  const place = { execution, phase, visit: visit.visit, handler: handler.name, firstSeq, lastSeq };
  async function* results(): AsyncGenerator<unknown> {
    if (place.visit > 0)
      for await (const { status, payload } of source.settled(place))
        if (status === "done") yield JSON.parse(payload) as Json;
  }
  async function* failures(): AsyncGenerator<{ task: number; error: unknown }> {
    if (place.visit === 0) return;
    // A later round may have the last word on a task.
    const failed = new Map<number, string>();
    for await (const { task, status, payload } of source.settled(place)) {
      failed.delete(task);
      if (status === "failed") failed.set(task, payload);
    }
    for (const [task, payload] of failed) yield { task, error: JSON.parse(payload) as Json };
  }
  return {
    count: handler.done,
    failed: handler.failed,
    total: handler.total,
    results,
    failures,
    async reduce(fold, initial) {
      let sum = initial;
      for await (const result of results()) sum = await fold(sum, result);
      return sum;
    },
    visit: (n) =>
      reader(
        execution,
        { ...visit, visit: n, firstSeq: 1, lastSeq: visit.lastSeq },
        { ...handler, total: 0, done: 0, failed: 0, value: null },
        source,
      ),
    value: handler.value === null ? null : (JSON.parse(handler.value) as Json),
  };
}
