/** What left a node, and what has not, for tests of its gates. */
import type { Attempt } from "./attempt-reports.ts";
import { NodeBench } from "./node-bench.ts";

const OUTSIDE: readonly string[] = ["reply", "grant", "verdicts", "progressed", "cancel"];

/** The kinds of all that others were told, in order. */
export function outside(bench: NodeBench): string[] {
  return bench.outputs.map(({ kind }) => kind).filter((kind) => OUTSIDE.includes(kind));
}

/** A bench with one execution of `phases`, started and served by one local worker. */
export function running(phases: unknown, uses = ["w.a", "w.b"]): { bench: NodeBench; first: Attempt[] } {
  const bench = new NodeBench();
  bench.join("w1", uses);
  bench.start(bench.plan(phases), "e1");
  bench.settle();
  return { bench, first: bench.attempts() };
}
