/**
 * The workflows of the chaos: those of the tests with faults, and a chain, tasks that fail at first, and tasks under a
 * limit of the whole cluster. All of them note what they do in the same ledger.
 */
import { appendFileSync } from "node:fs";
import { join } from "node:path";
import { workflow } from "rondo";

export { brisk, journey, kid } from "../../fixtures/faults/flows.mjs";

const heartbeat = process.env.HEARTBEAT ?? "2s";
const retry = { attempts: 5, crashes: 100, min: "1ms", max: "20ms" };

function note(what, { execution, attempt, idempotencyKey }) {
  const line = { what, pid: process.pid, at: Date.now(), execution, key: idempotencyKey, attempt };
  appendFileSync(join(process.env.FAULTS, "ledger.ndjson"), `${JSON.stringify(line)}\n`);
}

const listed = ({ input }) => Array.from({ length: input.tasks }, (_, id) => ({ id }));

/** One task after another, each in a phase of its own, with a timer between two. */
export const chain = workflow({ name: "chain" })
  .phase("only", {
    async process(context) {
      note("begins", context);
      return { value: context.input.value + 1 };
    },
    retry,
    heartbeat,
  })
  .sleep("rest", "200ms")
  .phase("last", {
    async process(context) {
      note("begins", context);
      for await (const { value } of context.phases.only.results()) return { value: value * 2 };
      return null;
    },
    retry,
    heartbeat,
  })
  .returns(async ({ phases }) => {
    for await (const { value } of phases.last.results()) return value;
    return null;
  });

/** Every third task fails the first time. */
export const flaky = workflow({ name: "flaky" })
  .phase("work", {
    enumerate: listed,
    async process(context) {
      note("begins", context);
      if (context.attempt === 1 && context.task.id % 3 === 0) throw new Error("not yet");
      return { id: context.task.id };
    },
    retry,
    heartbeat,
  })
  .returns(({ phases }) => phases.work.count);

/** No more than three of these at a time, in all executions at all nodes. */
export const limited = workflow({ name: "limited" })
  .phase("work", {
    enumerate: listed,
    async process(context) {
      note("begins", context);
      await new Promise((resolve) => setTimeout(resolve, 20));
      note("ends", context);
      return { id: context.task.id };
    },
    concurrency: 3,
    retry,
    heartbeat,
  })
  .returns(({ phases }) => phases.work.count);
