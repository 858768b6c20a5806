// Workflows and executions that the pages of the dashboard are looked at with.
import { Fatal, workflow } from "rondo";
import { z } from "zod";
import { topic } from "../../src/sdk/topic.ts";
import type { RondoServer } from "../../src/server/serve.ts";

const PAUSE = { input: z.object({ count: z.number().int(), ms: z.number().optional() }) };

/** Three phases; resizing takes a while, some of it is tried again. */
export const thumbnails = workflow({ name: "thumbnails", ...PAUSE })
  .phase("resize", {
    enumerate: ({ input }) => Array.from({ length: input.count }, (_, n) => ({ key: `photos/${n}.jpg`, n })),
    concurrency: 64,
    retry: { attempts: 3, min: "200ms", max: "1s" },
    process: async ({ task, input, attempt, log }) => {
      if (task.n % 97 === 0) log.info(`resizing ${task.key}`);
      await new Promise((resolve) => setTimeout(resolve, (input.ms ?? 0) * (0.5 + ((task.n * 7) % 10) / 10)));
      if (task.n % 41 === 7 && attempt === 1) throw new Error(`connection to cache-${task.n % 3} was reset`);
      return { bytes: 1_000 + task.n };
    },
  })
  .phase("index", { process: ({ input }) => ({ indexed: input.count }) })
  .phase("publish", {
    enumerate: () => [{ to: "web" }, { to: "mail" }, { to: "archive" }],
    process: ({ task, log }) => {
      log.info(`publishing to ${task.to}`);
      return task.to;
    },
  });

/** Some of its tasks fail for good, with messages that differ in numbers only. */
export const invoices = workflow({ name: "invoices", ...PAUSE }).phase("charge", {
  enumerate: ({ input }) =>
    Array.from({ length: input.count }, (_, n) => ({ n, customer: `customer-${n % 5}` })),
  tolerate: "50%",
  process: ({ task }) => {
    if (task.n % 11 === 3) throw new Fatal(`card of customer ${task.n} was declined`);
    if (task.n % 29 === 5) throw new Fatal(`no such invoice "${task.n}"`);
    return { charged: task.n * 100 };
  },
});

/** Fails as a whole. */
export const nightly = workflow({ name: "nightly", ...PAUSE }).phase("import", {
  enumerate: ({ input }) => Array.from({ length: input.count }, (_, n) => ({ n })),
  process: ({ task }) => {
    if (task.n === 2) throw new Fatal("line 3 of orders.csv has 7 columns, expected 9");
    return task.n;
  },
});

/** Its script fails, after tasks that are done. */
export const unpriced = workflow({ name: "unpriced", ...PAUSE })
  .phase("import", {
    enumerate: ({ input }) => Array.from({ length: input.count }, (_, n) => ({ n })),
    process: ({ task }) => task.n,
  })
  .script("total", {
    runs: [{ name: "sum", expression: "(state) => {\n  throw new TypeError('nothing has a price');\n}" }],
    retry: { attempts: 1 },
  });

/** Waits for a person. */
export const approval = workflow({ name: "approval" })
  .sleep("cool-off", "1s")
  .waitFor("approved", { schema: z.object({ by: z.string() }), timeout: "2d" });

/** Served by nobody. */
export const orphan = {
  rondo: 1,
  name: "orphan",
  input: { type: "object", required: ["bucket"], properties: { bucket: { type: "string" } } },
  phases: [
    {
      name: "work",
      handlers: { work: { use: "orphan.work", tasks: [{ key: "a" }, { key: "b" }], concurrency: 5 } },
    },
  ],
};

const TOPIC = "LEXI_CMD_EMBED";

/** Two commands, the first with something to do after its receipt. */
const commands = {
  rondo: 1,
  name: "embed",
  phases: ["EMBED_REPO", "INDEX_REPO"].map((cmd_type, i) => ({
    name: `step-${i}`,
    handlers: {
      [`step-${i}`]: {
        command: {
          cmd_type,
          cmd_data: { repo: "rondo" },
          cmd_metadata:
            i === 0
              ? {
                  cmd_post_op: {
                    cmd_result_persistence: {
                      target_statestore_name: "embedded",
                      target_statestore_key: "repo",
                      target_statestore_partition_key: "rondo",
                    },
                  },
                }
              : {},
        },
        topic: TOPIC,
      },
    },
  })),
};

/** Leaves what it has done step by step. */
const sums = workflow({ name: "sums" }).phase("sum", {
  process: async ({ step }) => {
    const doubled = await step("double", () => [1, 2, 3].map((n) => n * 2));
    return step("add", () => doubled.reduce((sum, n) => sum + n, 0));
  },
});

/** Serves the workflows, and starts so many of each that every page has something to show; resolves when most have ended. */
export async function seed(server: RondoServer): Promise<void> {
  const { rondo, url } = server;
  rondo.serve(thumbnails, invoices, nightly, approval, sums, unpriced);
  rondo.serve(topic(TOPIC, ({ cmd }) => ({ embedded: cmd.cmd_type })));
  const ask = async (path: string, body: unknown): Promise<void> => {
    const response = await fetch(url + path, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify(body),
    });
    if (!response.ok) throw new Error(`${path}: ${await response.text()}`);
  };
  for (const definition of [orphan, commands]) await ask("/v1/workflows", definition);
  await ask("/v1/executions", { workflow: "embed", input: {}, id: "embed-1" });
  await ask("/v1/executions", {
    workflow: "orphan",
    input: { bucket: "b" },
    id: "orphan-1",
    tags: { team: "ops" },
  });
  const ended = [];
  for (let i = 0; i < 12; i++) {
    ended.push(
      await rondo.start(
        thumbnails,
        { count: 40 + i * 20 },
        { id: `thumbs-${i}`, tags: { day: `2026-11-${10 + i}` } },
      ),
    );
    ended.push(await rondo.start(invoices, { count: 30 + i }, { id: `invoices-${i}` }));
  }
  ended.push(await rondo.start(nightly, { count: 5 }, { id: "nightly-2026-11-15" }));
  await rondo.start(approval, {}, { id: "approval-7" });
  await ask("/v1/schedules", {
    id: "nightly",
    workflow: "nightly",
    input: { count: 5 },
    cron: "0 6 * * *",
    timeZone: "Europe/Berlin",
  });
  await ask("/v1/schedules", {
    id: "hourly",
    workflow: "thumbnails",
    input: { count: 10 },
    cron: "0 * * * *",
    misfire: "skip",
    overlap: "skip",
  });
  await ask("/v1/schedules/hourly/pause", undefined);
  ended.push(rondo.execution("embed-1"), await rondo.start(sums, {}, { id: "sums-1" }));
  await Promise.all(ended.map((execution) => execution.result().catch(() => null)));
}
