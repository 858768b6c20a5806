// What the builder makes of a workflow: the definition as data, and code by wire name.
import { describe, expect, test } from "vitest";
import { z } from "zod";
import { parseDefinition } from "../../src/kernel/definition/parse-definition.ts";
import { compilePlan } from "../../src/kernel/definition/plan.ts";
import { handler } from "../../src/sdk/handler.ts";
import { workflow } from "../../src/sdk/workflow.ts";
import { isRejection, unwrap } from "../../src/std/rejection.ts";

const nothing = () => null;

const thumbnails = workflow({ name: "thumbnails", input: z.object({ bucket: z.string() }) })
  .phase(
    "resize",
    {
      enumerate: ({ input }) => [{ key: input.bucket }],
      process: ({ task }) => task.key,
      version: "1.2.0",
      retry: { attempts: 5, backoff: "exponential", min: "1s", max: "5m" },
      timeout: "30s",
      concurrency: 200,
      key: (task) => task.key,
      concurrencyPerKey: 5,
      identity: "/key",
      tolerate: "1%",
    },
    { onError: "cleanup" },
  )
  .phase("publish", {
    index: handler({ name: "indexer", process: nothing }),
    notify: handler({ tasks: [{ to: "ops" }], batch: 1, processBatch: ({ tasks }) => tasks }),
  })
  .sleep("cool-off", "10m")
  .waitFor("approved", { timeout: "2d" })
  .waitFor("reviewed", { signal: "review", schema: z.object({ ok: z.boolean() }), optional: true })
  .phase("again", {}, { next: () => "resize", among: ["resize", "end"], maxVisits: 50 })
  .phase("end", {}, { final: true })
  .phase("cleanup", { process: nothing }, { final: "failed" })
  .returns(({ phases }) => ({ files: phases.resize.count }));

describe("the definition", () => {
  test("is the data that a definition file would hold", () => {
    expect(thumbnails.definition).toEqual({
      rondo: 1,
      name: "thumbnails",
      input: {
        $schema: "https://json-schema.org/draft/2020-12/schema",
        type: "object",
        properties: { bucket: { type: "string" } },
        required: ["bucket"],
      },
      phases: [
        {
          name: "resize",
          onError: "cleanup",
          handlers: {
            resize: {
              use: "thumbnails.resize",
              enumerate: { use: "thumbnails.resize" },
              version: "^1.2.0",
              retry: { attempts: 5, backoff: "exponential", min: "1s", max: "5m" },
              timeout: "30s",
              concurrency: 200,
              key: true,
              concurrencyPerKey: 5,
              identity: "/key",
              tolerate: "1%",
            },
          },
        },
        {
          name: "publish",
          handlers: {
            index: { use: "indexer" },
            notify: { use: "thumbnails.publish.notify", tasks: [{ to: "ops" }], batch: 1 },
          },
        },
        { name: "cool-off", handlers: { "cool-off": { sleep: "10m" } } },
        { name: "approved", handlers: { approved: { waitFor: "approved", timeout: "2d" } } },
        {
          name: "reviewed",
          handlers: {
            reviewed: {
              waitFor: "review",
              optional: true,
              schema: expect.objectContaining({ type: "object", required: ["ok"] }),
            },
          },
        },
        {
          name: "again",
          handlers: {},
          next: { use: "thumbnails.again.next", among: ["resize", "end"] },
          maxVisits: 50,
        },
        { name: "end", handlers: {}, final: true },
        { name: "cleanup", handlers: { cleanup: { use: "thumbnails.cleanup" } }, final: "failed" },
      ],
      returns: { use: "thumbnails.returns" },
    });
  });

  test("is accepted by the kernel and survives JSON", () => {
    const parsed = parseDefinition(thumbnails.definition);
    expect(isRejection(parsed)).toBe(false);
    expect(parseDefinition(JSON.parse(JSON.stringify(thumbnails.definition)))).toEqual(parsed);
  });

  test("holds commands, scripts and children as data", () => {
    const { definition, handlers } = workflow({ name: "built-in" })
      .command("embed", {
        topic: "LEXI_CMD_EMBED",
        cmd: { cmd_type: "EMBED_REPO", cmd_data: { a: 1 } },
        retry: { attempts: 2 },
      })
      .script("map", {
        runs: [{ name: "one", expression: "s => s", timeout: "5s" }],
        state: {},
        resume: false,
      })
      .child("invoices", thumbnails, { enumerate: () => [{ bucket: "b" }], concurrency: 20 })
      .child("more", "thumbnails");
    expect(definition.phases.map((phase) => phase.handlers)).toEqual([
      {
        embed: {
          command: { cmd_type: "EMBED_REPO", cmd_data: { a: 1 } },
          topic: "LEXI_CMD_EMBED",
          retry: { attempts: 2 },
        },
      },
      { map: { script: [{ name: "one", expression: "s => s", timeout: "5s" }], state: {}, resume: false } },
      { invoices: { workflow: "thumbnails", enumerate: { use: "built-in.invoices" }, concurrency: 20 } },
      { more: { workflow: "thumbnails" } },
    ]);
    expect(handlers.map(({ use }) => use)).toEqual(["built-in.invoices"]);
  });

  test("carries no JSON Schema where the library has none to give", () => {
    const dates = workflow({ name: "dates", input: z.object({ at: z.date() }) });
    expect(dates.definition).not.toHaveProperty("input");
    const bare = {
      "~standard": { version: 1, vendor: "own", validate: (value: unknown) => ({ value }) },
    } as const;
    expect(workflow({ name: "bare", input: bare }).definition).not.toHaveProperty("input");
  });
});

describe("the options of next and returns", () => {
  const among = ["a", "end"];
  const built = workflow({ name: "w", defaults: { retry: { attempts: 7, crashes: 50 }, timeout: "1m" } })
    .phase("a", { process: nothing, retry: { attempts: 2 } })
    .phase("b", { tasks: [1], process: nothing, compensate: nothing, compensation: { timeout: "5s" } })
    .phase("c", {}, { next: () => "end", among })
    .phase("d", {}, { next: { decide: () => "end", among, retry: { crashes: 9 }, timeout: "2s" } })
    .sleep("wait", "1s")
    .phase("end", {}, { final: true })
    .returns(() => 1, { retry: { attempts: 1 } });

  test("are written beside the code, over the defaults of the workflow, which are no field of the definition", () => {
    const retry = { attempts: 7, crashes: 50 };
    expect(built.definition).toEqual({
      rondo: 1,
      name: "w",
      phases: [
        { name: "a", handlers: { a: { use: "w.a", retry: { attempts: 2, crashes: 50 }, timeout: "1m" } } },
        {
          name: "b",
          handlers: {
            b: {
              use: "w.b",
              tasks: [1],
              retry,
              timeout: "1m",
              compensate: { use: "w.b.compensate", retry, timeout: "5s" },
            },
          },
        },
        { name: "c", handlers: {}, next: { use: "w.c.next", among, retry, timeout: "1m" } },
        {
          name: "d",
          handlers: {},
          next: { use: "w.d.next", among, retry: { attempts: 7, crashes: 9 }, timeout: "2s" },
        },
        { name: "wait", handlers: { wait: { sleep: "1s" } } },
        { name: "end", handlers: {}, final: true },
      ],
      returns: { use: "w.returns", retry: { attempts: 1, crashes: 50 }, timeout: "1m" },
    });
  });

  test("count in the plan", () => {
    const { phases } = compilePlan(unwrap(parseDefinition(built.definition)));
    const budgets = [phases[2]?.decision, phases[3]?.decision, phases[6]?.handlers[0]].map((plan) => [
      plan?.name,
      plan?.attempts,
      plan?.crashes,
      plan?.timeoutMs,
    ]);
    expect(budgets).toEqual([
      ["next", 7, 50, 60_000],
      ["next", 7, 9, 2_000],
      ["returns", 1, 50, 60_000],
    ]);
  });
});

describe("the code", () => {
  test("is listed by wire name", () => {
    expect(thumbnails.handlers.map(({ use, version }) => [use, version])).toEqual([
      ["thumbnails.resize", "1.2.0"],
      ["indexer", undefined],
      ["thumbnails.publish.notify", undefined],
      ["thumbnails.reviewed", undefined],
      ["thumbnails.again.next", undefined],
      ["thumbnails.cleanup", undefined],
      ["thumbnails.returns", undefined],
    ]);
  });

  test("is hosted once where phases share a handler with its own name", () => {
    const shared = handler({ name: "shared", process: nothing });
    const { handlers, definition } = workflow({ name: "w" }).phase("a", shared).phase("b", { x: shared });
    expect(handlers.map(({ use }) => use)).toEqual(["shared"]);
    expect(definition.phases.map((phase) => phase.handlers)).toEqual([
      { a: { use: "shared" } },
      { x: { use: "shared" } },
    ]);
  });
});

describe("a builder", () => {
  test("is not changed by what is added to it", () => {
    const before = workflow({ name: "w" }).phase("a", { process: nothing });
    const one = before.phase("b", { process: nothing });
    const other = before.phase("c", { process: nothing });
    const names = [before, one, other].map((built) => built.definition.phases.map(({ name }) => name));
    expect(names).toEqual([["a"], ["a", "b"], ["a", "c"]]);
    expect(one.handlers.map(({ use }) => use)).toEqual(["w.a", "w.b"]);
  });

  test("keeps a copy of the options it was given", () => {
    const retry = { attempts: 2 };
    const built = workflow({ name: "w" }).phase("a", { process: nothing, retry });
    retry.attempts = 9;
    expect(built.definition.phases[0]?.handlers["a"]).toMatchObject({ retry: { attempts: 2 } });
  });

  test("takes {} as a phase without handlers, and a map of one as a map", () => {
    const built = workflow({ name: "w" })
      .phase("none", {})
      .phase("map", { map: handler({ process: nothing }) });
    expect(built.definition.phases.map((phase) => phase.handlers)).toEqual([
      {},
      { map: { use: "w.map.map" } },
    ]);
  });
});
