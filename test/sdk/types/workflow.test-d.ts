/** Type tests of the builder: what code in a workflow sees. Compiled by tsc, never run. */
import { z } from "zod";
import { flow } from "../../../src/sdk/flow.ts";
import { handler, handlerFor } from "../../../src/sdk/handler.ts";
import { type WorkflowInput, type WorkflowOutput, workflow } from "../../../src/sdk/workflow.ts";
import type { Json } from "../../../src/std/json.ts";
import type { BatchAttempt, TaskError } from "../../../src/worker/handler-code.ts";
import { same, some } from "../../fixtures/sdk/same-type.ts";

const schema = z.object({ bucket: z.string(), size: z.number().default(3), since: z.coerce.date() });
interface Seen {
  bucket: string;
  size: number;
  since: Date;
}

const square = handlerFor<number>()({ name: "square", process: ({ task }) => new Date(task * task) });

const thumbnails = workflow({ name: "thumbnails", input: schema })
  .phase(
    "resize",
    {
      async *enumerate({ input, resume, signal }) {
        same<Seen>()(input);
        same<number | undefined>()(resume?.count);
        same<boolean>()(signal.aborted);
        yield { key: "a", at: new Date(0) };
      },
      async process({ task, attempt, idempotencyKey, log, progress, secret, step, sleep, waitFor, map }) {
        same<{ key: string; at: string }>()(task);
        same<number>()(attempt);
        log("resizing", idempotencyKey);
        log.debug("more", { of: "it" });
        same<string>()(secret("hunter2-hunter2"));
        progress(1, 2);
        await sleep("a while", "1m");
        same<string>()(await step("date", () => new Date(0)));
        same<{ n: number }>()(await step("async", async () => ({ n: 1, left: undefined })));
        same<Json>()(await waitFor("anything"));
        same<number>()(
          await step("budget", { retry: { attempts: 2 }, timeout: "1s" }, ({ attempt }) => attempt),
        );
        same<{ at: string }[]>()(
          await map("all", [1, 2], (n, { index }) => ({ at: new Date(n + index) }), { concurrency: 2 }),
        );
        const squares = await map("squares", new Set([1, 2]), square);
        same<number>()(squares.count);
        same<string[]>()(await squares.toArray({ max: 5 }));
        same<string | undefined>()(await squares.first());
        // @ts-expect-error: the handler takes numbers
        await map("texts", ["a"], square);
        // @ts-expect-error: concurrency is an option of the handler
        await map("limited", [1], square, { concurrency: 2 });
        const first = await waitFor(["yes", "no"], { schema: z.object({ by: z.string() }) });
        same<"yes" | "no">()(first.name);
        same<string>()(first.value.by);
        same<"a" | "b">()((await waitFor("later", { signal: ["a", "b"] })).name);
        same<Json>()(await waitFor("other", { signal: "anything", match: { order: 1 } }));
        same<{ n: number }>()(await waitFor("n", { schema: z.object({ n: z.coerce.number() }) }));
        return { key: task.key, at: new Date(0), note: undefined as string | undefined };
      },
      key: (task) => task.at.toISOString(),
      identity: "/key",
      retry: { attempts: 5, backoff: "exponential", min: "1s", max: "5m" },
      tolerate: "1%",
    },
    {
      next: ({ phases, input }) => (phases.resize.count > input.size ? "publish" : "end"),
      among: ["publish", "end"],
    },
  )
  .phase(
    "publish",
    {
      index: handler({
        enumerate: ({ phases }) => [phases.resize.count],
        process: ({ task, input }) => ({ task, bucket: input.bucket }),
      }),
      notify: handler({
        process({ task }) {
          same<Seen>()(task);
        },
      }),
    },
    {
      onError: "cleanup",
      among: ["end"],
      async next({ phases }) {
        for await (const result of phases.publish.index.results())
          same<{ task: number; bucket: string }>()(result);
        return "end";
      },
    },
  )
  .phase(
    "decided",
    {},
    {
      next: {
        decide({ phases, input }) {
          same<Seen>()(input);
          return phases.resize.count > 1 ? "cool-off" : "end";
        },
        among: ["cool-off", "end"],
        retry: { crashes: 20 },
        timeout: "5s",
      },
    },
  )
  .sleep("cool-off", "10m")
  .waitFor("approved", { schema: z.object({ by: z.string(), at: z.coerce.date<string>() }), timeout: "2d" })
  .waitFor("reviewed", { schema: z.object({ ok: z.boolean() }), timeout: 5_000, optional: true })
  .waitFor("anything")
  .phase("batched", {
    tasks: [1, 2, 3],
    batch: 2,
    processBatch: ({ tasks, attempts, now }) => {
      same<readonly BatchAttempt[]>()(attempts);
      same<() => number>()(now);
      return tasks.map((n) => (n > 1 ? { n } : new Error("too small")));
    },
  })
  .command("embed", { topic: "LEXI_CMD_EMBED", cmd: { cmd_type: "EMBED_REPO", cmd_data: {} } })
  .command("index", {
    topic: "LEXI_CMD_INDEX",
    receiptTopic: "LEXI_DONE",
    enumerate: ({ input }) => [{ bucket: input.bucket }],
    cmd: {
      cmd_type: "INDEX_REPO",
      cmd_data: { from: "${steps[0].cmd_result.at}", bucket: "${task.bucket}" },
      cmd_metadata: {
        user_id: "usr@lxi.com",
        cmd_post_op: {
          cmd_result_enrichment: { prop_map: [{ key: "__metadata__", val: { user_id: "usr@lxi.com" } }] },
          cmd_result_persistence: { target_statestore_name: "found", target_statestore_key: "lxi" },
          cmd_result_broadcasts: [{ url: "https://lxi.com/told", static_payload: { a: 1 }, timeout: "5s" }],
        },
      },
    },
    retry: { attempts: 2 },
    timeout: "5m",
    concurrency: 3,
  })
  .script("map", { runs: [{ name: "one", expression: "s => s" }], state: {} })
  .phase("end", {}, { final: true })
  .phase("cleanup", { process: async () => {} }, { final: "failed" })
  .returns(async ({ phases, input, attempt, attemptId, now }) => {
    same<Seen>()(input);
    same<number>()(attempt);
    same<string>()(attemptId);
    same<() => number>()(now);
    for await (const result of phases.resize.results())
      same<{ key: string; at: string; note?: string }>()(result);
    for await (const result of phases.resize.visit(1).results()) same<string>()(result.key);
    for await (const { task, data, error } of phases.resize.failures()) {
      same<number>()(task);
      same<{ key: string; at: string } | undefined>()(data);
      same<TaskError>()(error);
      same<string>()(error.message);
    }
    for await (const result of phases.publish.notify.results()) same<null>()(result);
    for await (const result of phases.batched.results()) same<{ n: number }>()(result);
    for await (const result of phases.embed.results()) same<Json>()(result);
    same<number>()(phases.index.count);
    same<number>()(await phases.batched.reduce((sum, { n }) => sum + n, 0));
    same<{ by: string; at: string }>()(phases.approved.value);
    same<{ ok: boolean } | null>()(phases.reviewed.value);
    same<Json>()(phases.anything.value);
    same<number>()(phases["cool-off"].total);
    return { files: phases.resize.count, at: new Date(0) };
  });

same<{ files: number; at: string }>()(some<WorkflowOutput<typeof thumbnails>>());
same<z.input<typeof schema>>()(some<WorkflowInput<typeof thumbnails>>());

const shared = handler({ name: "indexer", process: ({ task }: { task: { id: string } }) => task.id });
const typed = workflow<{ id: string; at: Date }>({ name: "typed" })
  .phase("single", shared)
  .phase("map", { shared })
  .child("kids", thumbnails, { enumerate: ({ phases }) => [{ bucket: "b", since: phases.single.count }] })
  .child("named", "thumbnails")
  .returns(async ({ phases, input }) => {
    same<{ id: string; at: string }>()(input);
    for await (const result of phases.single.results()) same<string>()(result);
    for await (const result of phases.map.shared.results()) same<string>()(result);
    for await (const result of phases.kids.results()) same<number>()(result.files);
    for await (const result of phases.named.results()) same<unknown>()(result);
  });
same<null>()(some<WorkflowOutput<typeof typed>>());
same<{ id: string; at: Date }>()(some<WorkflowInput<typeof typed>>());

workflow({ name: "any" }).phase("a", {
  process: ({ task, input }) => [same<Json>()(task), same<Json>()(input)],
});

const kinds = workflow<{ ids: string[] }>({ name: "kinds" });
kinds.phase("array", { enumerate: ({ input }) => input.ids, process: ({ task }) => same<string>()(task) });
kinds.phase("promise", { enumerate: async () => [1], process: ({ task }) => same<number>()(task) });
kinds.phase("set", { enumerate: () => new Set([1]), process: ({ task }) => same<number>()(task) });
kinds.phase("late", { process: ({ task }) => same<boolean>()(task), enumerate: () => [true] });
kinds.phase("generator", {
  *enumerate({ input }) {
    yield* input.ids;
  },
  process: ({ task }) => same<string>()(task),
});
kinds.phase("stream", {
  enumerate: async () => some<AsyncIterable<{ n: number }>>(),
  process: ({ task }) => same<{ n: number }>()(task),
});

workflow({
  name: "endings",
  input: schema,
  onCancel: "undo",
  onFailure: "undo",
  finally: "close",
  cleanupTimeout: "5m",
})
  .phase("charge", {
    enumerate: () => [{ card: "a", at: new Date(0) }],
    process: ({ task }) => ({ receipt: task.card, at: new Date(0) }),
    compensate({ task, result, outcome, idempotencyKey, input, phases }) {
      same<{ card: string; at: string }>()(task);
      same<{ receipt: string; at: string } | undefined>()(result);
      same<"done" | "unknown">()(outcome);
      same<string>()(idempotencyKey);
      same<Seen>()(input);
      same<number>()(phases.charge.visits);
      if (outcome === "done") same<{ receipt: string; at: string }>()(result);
    },
    compensation: { retry: { attempts: 10 }, timeout: "1m", concurrency: 5 },
  })
  .phase("map", {
    one: handler({
      process: ({ input }) => input.size,
      compensate: ({ result }) => {
        same<number | undefined>()(result);
      },
    }),
  })
  .child("legs", thumbnails, {
    tasks: [],
    compensate: ({ result }) => {
      same<WorkflowOutput<typeof thumbnails> | undefined>()(result);
    },
  })
  .script("twice", {
    runs: [{ name: "one", expression: "s => s" }],
    compensate: ({ result }) => {
      same<Json | undefined>()(result);
    },
  });

const lasts = workflow({ name: "lasts", input: schema, finally: "close" })
  .phase("single", { process: () => ({ at: new Date(0) }) })
  .phase("close", { process: () => 1 });
same<{ at: string }>()(some<WorkflowOutput<typeof lasts>>());

const sharedOne = handler({ process: () => "shared" });
const branches = workflow({ name: "branches" })
  .phase("one", sharedOne, { final: true })
  .phase("many", { enumerate: () => [1], process: () => 1 }, { final: true })
  .phase("loop", { process: async ({ phases }) => phases.loop.visit(1).only() })
  .phase("repair", { process: () => true }, { final: "failed" });
same<string | null>()(some<WorkflowOutput<typeof branches>>());

const fans = workflow({ name: "fans" }).phase("many", { enumerate: () => [1], process: () => 1 });
same<null>()(some<WorkflowOutput<typeof fans>>());

const unknowable = workflow<number>({ name: "unknowable", finally: "close" }).phase("a", {
  process: () => 1,
});
same<unknown>()(some<WorkflowOutput<typeof unknowable>>());

const given = fans.returns(({ phases }) => phases.many.first()).phase("after", { process: () => "x" });
same<number | null>()(some<WorkflowOutput<typeof given>>());

const oneFunction = flow("one-function", async ({ step, signals, uuid }, input: { at: string }) => {
  same<string>()(uuid());
  for await (const item of signals("item", { schema: z.number() })) same<number>()(item);
  return step("date", () => ({ at: new Date(input.at) }));
});
same<{ at: string }>()(some<WorkflowInput<typeof oneFunction>>());
same<{ at: string }>()(some<WorkflowOutput<typeof oneFunction>>());

const checked = flow(
  "checked",
  (ctx, input) => {
    same<number>()(input.n);
    return ctx.input.n;
  },
  { input: z.object({ n: z.coerce.number<string>() }) },
);
same<{ n: string }>()(some<WorkflowInput<typeof checked>>());
same<number>()(some<WorkflowOutput<typeof checked>>());

export const dynamicTasks = workflow<{ start: string }>({ name: "crawler" })
  .phase("crawl", {
    enumerate: ({ input }) => [{ url: input.start, at: new Date() }],
    identity: (page) => page.at.getTime(),
    after: (page) => {
      same<{ url: string; at: Date }>()(page);
      return [page.url, 7];
    },
    adds: true,
    process: ({ task, add }) => {
      same<{ url: string; at: string }>()(task);
      same<(...items: readonly { url: string; at: Date }[]) => void>()(add);
      add({ url: "a", at: new Date() }, { url: "b", at: new Date() });
      // @ts-expect-error an item is added as `enumerate` gives it, not as it is stored
      add(task);
      return 1;
    },
  })
  .phase("single", {
    process: ({ add }) => {
      // @ts-expect-error a handler whose one task is the input adds nothing
      add({ start: "x" });
    },
  });

const sized = flow("sized", (_ctx, input: { side: number }) => ({ area: input.side ** 2 }));

flow("children", async ({ run, start, now }) => {
  same<{ area: number }>()(await run(sized, { side: 2 }));
  same<unknown>()(await run("by name", { any: "input" }, { name: "second" }));
  same<string>()((await start(sized, { side: 3 })).id);
  same<number>()(now("began"));
  // @ts-expect-error the input of the child has another type
  await run(sized, { side: "2" });
  // @ts-expect-error a child has a name, and no other options
  await start(sized, { side: 2 }, { id: "x" });
});
