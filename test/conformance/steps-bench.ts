/** A worker whose tasks have steps, for tests. */
import { expect } from "vitest";
import type { ProcessContext } from "../../src/worker/handler-code.ts";
import type { ResultsSource } from "../../src/worker/results-reader.ts";
import { WorkerBench, type WorkerBenchOptions } from "./worker-bench.ts";

type Payload = { result: string } | { error: string };

/** A bench for one task whose earlier attempts journaled payloads at these places. */
export function benchOf(
  process: (context: ProcessContext) => unknown,
  options: WorkerBenchOptions & { journal?: Record<number, Payload> } = {},
): WorkerBench {
  const results: ResultsSource = {
    async *settled() {},
    checkpoint: async (execution, seq) => {
      expect(execution).toBe("e1");
      return options.journal?.[seq] ?? Promise.reject(new Error(`nothing at ${seq}`));
    },
  };
  return new WorkerBench({ process }, { results, ...options });
}
