/** Type tests of the builder: mistakes that must not compile. Compiled by tsc, never run. */
import { z } from "zod";
import { Fatal, RetryAfter } from "../../../src/sdk/errors.ts";
import { handler } from "../../../src/sdk/handler.ts";
import { workflow } from "../../../src/sdk/workflow.ts";

const base = workflow({ name: "base", input: z.object({ bucket: z.string() }) })
  .phase("one", { enumerate: () => [{ key: "a" }], process: ({ task }) => ({ bytes: task.key.length }) })
  .phase("several", { index: handler({ process: () => 1 }), notify: handler({ process: () => "a" }) })
  .waitFor("approved", { schema: z.object({ by: z.string() }) });

// @ts-expect-error the task is the input, which has no such member
base.phase("a", { process: ({ task }) => task.nothing });
// @ts-expect-error the task is what enumerate yields
base.phase("a", { enumerate: () => [{ key: 1 }], process: ({ task }) => task.bucket });
// @ts-expect-error the same in a map
base.phase("a", { x: handler({ enumerate: () => [{ key: 1 }], process: ({ task }) => task.bucket }) });
// @ts-expect-error the input has no such member
base.phase("a", { enumerate: ({ input }) => [input.nothing], process: () => 1 });
// @ts-expect-error dates are texts once they were stored
base.phase("a", { enumerate: () => [new Date(0)], process: ({ task }) => task.getTime() });
// @ts-expect-error no earlier phase has this name
base.phase("a", { process: ({ phases }) => phases.later.count });
// @ts-expect-error results of earlier visits of the own phase are any JSON
base.phase("a", { process: async ({ phases }) => (await phases.a.visit(1).only()).nothing });
// @ts-expect-error a map is read by handler
base.phase("a", { process: ({ phases }) => phases.several.count });
// @ts-expect-error one unnamed handler is read by phase
base.phase("a", { process: ({ phases }) => phases.one.one.count });
// @ts-expect-error the map has no such handler
base.phase("a", { process: ({ phases }) => phases.several.other.count });
// @ts-expect-error only a wait has a value
base.returns(({ phases }) => phases.one.value);
// @ts-expect-error the payload has no such member
base.returns(({ phases }) => phases.approved.value.nothing);
// @ts-expect-error results have no such member
base.returns(({ phases }) => phases.one.reduce((sum, result) => sum + result.nothing, 0));
// @ts-expect-error a wait that is optional can be without value
base.waitFor("b", { schema: z.string(), optional: true }).returns(({ phases }) => phases.b.value.length);

// @ts-expect-error a step has a name
base.phase("a", { process: ({ step }) => step(() => 1) });
// @ts-expect-error a step's result is as stored
base.phase("a", { process: async ({ step }) => (await step("s", () => new Date(0))).getTime() });
// @ts-expect-error a wait's schema is a Standard Schema
base.phase("a", { process: ({ waitFor }) => waitFor("s", { schema: { type: "string" } }) });
// @ts-expect-error batches have no steps
base.phase("a", { batch: 2, processBatch: ({ step }) => [step] });

// @ts-expect-error a misspelt option
base.phase("a", { process: () => 1, concurency: 1 });
// @ts-expect-error a misspelt phase option
base.phase("a", { process: () => 1 }, { onFailure: "b" });
// @ts-expect-error in a map, each handler is made by handler()
base.phase("a", { x: { process: () => 1 } });
// @ts-expect-error not a percentage
base.phase("a", { process: () => 1, tolerate: "few" });
// @ts-expect-error not a backoff
base.phase("a", { process: () => 1, retry: { backoff: "linear" } });
// @ts-expect-error next answers with a name
base.phase("a", { process: () => 1 }, { next: () => 1, among: ["a"] });
// @ts-expect-error a handler is made of a spec
handler(() => 1);
// @ts-expect-error the child takes a bucket
base.child("a", base, { enumerate: () => [{ buckets: "b" }] });
// @ts-expect-error an input is a Standard Schema
workflow({ name: "a", input: { type: "object" } });
// @ts-expect-error a workflow has a name
workflow({});

const strict = handler({ process: ({ input }: { input: { other: number } }) => input.other });
// @ts-expect-error the handler was written for another input
base.phase("a", { strict });
// @ts-expect-error the same as the only handler
base.phase("a", strict);

// @ts-expect-error says what is wrong in words
export const fatal = new Fatal(404);
// @ts-expect-error a duration, not a date
export const later = new RetryAfter(new Date(0));

const cmd = { cmd_type: "A" };
// @ts-expect-error a command goes to a topic
base.command("a", { cmd });
// @ts-expect-error a command has a type
base.command("a", { topic: "A_CMD", cmd: { cmd_data: {} } });
// @ts-expect-error its data is JSON
base.command("a", { topic: "A_CMD", cmd: { cmd_type: "A", cmd_data: new Map() } });
// @ts-expect-error a command has no code that processes
base.command("a", { topic: "A_CMD", cmd, process: () => 1 });
const misspelt = { cmd_result_broadcast: [] };
// @ts-expect-error a misspelt post-operation
base.command("a", { topic: "T", cmd: { ...cmd, cmd_metadata: { cmd_post_op: misspelt } } });
const keyless = { cmd_result_persistence: { target_statestore_name: "s" } };
// @ts-expect-error a persistence names its key
base.command("a", { topic: "T", cmd: { ...cmd, cmd_metadata: { cmd_post_op: keyless } } });

workflow({ name: "batches" }).phase("a", {
  tasks: [1],
  batch: 2,
  processBatch: ({
    tasks,
    // @ts-expect-error a batch has an attempt for each of its tasks, in `attempts`
    attemptId,
  }) => {
    void attemptId;
    return [...tasks];
  },
});
