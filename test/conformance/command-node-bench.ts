/** A node with a workflow of commands, for tests of what it sends and what it owes after a receipt. */
import type { PostOpTask } from "../../src/engine/post-ops/post-ops.ts";
import type { Attempt } from "./attempt-reports.ts";
import { NodeBench } from "./node-bench.ts";

/** Tried twice, ten seconds apart. */
export const SLOW = { attempts: 2, min: "10s", backoff: "constant" };
/** A result that is to be kept. */
export const PERSIST = {
  cmd_result_persistence: { target_statestore_name: "s", target_statestore_key: "k", retry: SLOW },
};
/** A result that so many are to be told. */
export const tell = (n: number, more: object = {}) => ({
  cmd_result_broadcasts: Array.from({ length: n }, (_, i) => ({
    url: `http://x/${i}`,
    retry: SLOW,
    ...more,
  })),
});
export const TOPICS = ["topic:CMD_A", "topic:CMD_B"];

/** A bench with one execution of `phases`, started; a worker serves its topics. */
export function running(phases: unknown, settings = {}): NodeBench {
  const bench = new NodeBench(settings);
  bench.join("w1", TOPICS);
  bench.start(bench.plan(phases), "e1");
  bench.settle();
  return bench;
}
/** The newest attempt. */
export const first = (bench: NodeBench) => bench.attempts().at(-1) as Attempt;
/** The newest post-operation that was given out. */
export const last = (bench: NodeBench) => bench.errands.at(-1) as PostOpTask;
/** Post-operations that were given out, in order. */
export const shown = (bench: NodeBench) =>
  bench.errands.map(({ op, index, attempt }) => `${op} ${index}#${attempt}`);
export const RESULT = { payload: '{"n":1}' };
