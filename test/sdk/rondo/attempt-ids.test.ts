// What code knows of the attempt that it runs in, over a real engine: its id, its number, the time.
import { DirectoryInUse, openRondo, RondoError, topic, workflow } from "rondo";
import { testRondo } from "rondo/testing";
import { afterEach, describe, expect, test, vi } from "vitest";
import { failure } from "../../fixtures/sdk/open-rondo-fixture.ts";
import { temporaryDirectory } from "../../fixtures/temporary-directory-fixture.ts";

const ID = /^run\.[a-z]+\.\d+\.[a-z]+\.\d+\.-?\d+\.\d+\.\d+\.\d+$/;

describe("attemptId", () => {
  test("is told to all code of a workflow, and is another one each time", async () => {
    const seen: { by: string; attempt: number; attemptId: string }[] = [];
    const note = (by: string, { attempt, attemptId }: { attempt: number; attemptId: string }) =>
      void seen.push({ by, attempt, attemptId });
    const flow = workflow({ name: "ids" })
      .phase("a", {
        enumerate: (context) => {
          note("enumerate", context);
          return [1, 2];
        },
        process: (context) => {
          note("process", context);
          if (context.attempt === 1) throw new Error("once more");
          return context.task;
        },
      })
      .phase("b", {
        tasks: ["x", "y"],
        batch: 2,
        processBatch: ({ tasks, attempts }) => {
          for (const one of attempts) note(`batch ${one.number} ${one.idempotencyKey}`, one);
          return [...tasks];
        },
      })
      .command("c", { topic: "IDS_CMD", cmd: { cmd_type: "x" } })
      .phase(
        "d",
        {},
        {
          next: (context) => {
            note("next", context);
            return "end" as const;
          },
          among: ["end"],
        },
      )
      .phase("end", {}, { final: true })
      .returns((context) => {
        note("returns", context);
        return null;
      });
    const served = topic("IDS_CMD", (context) => note("topic", context));
    await using t = await testRondo({ workflows: [flow, served] });
    const execution = await t.start(flow, null, { id: "run" });
    await t.clock.advance("10m");
    await execution.result();
    expect(seen.map(({ by, attempt }) => `${by} ${attempt}`).sort((a, b) => a.localeCompare(b))).toEqual([
      "batch 0 run/b/1/b/0 1",
      "batch 1 run/b/1/b/1 1",
      "enumerate 1",
      "next 1",
      "process 1",
      "process 1",
      "process 2",
      "process 2",
      "returns 1",
      "topic 1",
    ]);
    for (const { attemptId } of seen) expect(attemptId).toMatch(ID);
    expect(new Set(seen.map(({ attemptId }) => attemptId)).size).toBe(seen.length);
  });

  test("is another one after a crash, though the number is the same where no start was recorded", async () => {
    const seen: { attempt: number; attemptId: string }[] = [];
    const flow = workflow({ name: "crash" }).phase("a", {
      process: async ({ attempt, attemptId }) => {
        seen.push({ attempt, attemptId });
        if (seen.length < 3) await new Promise<never>(() => {});
        return null;
      },
    });
    await using t = await testRondo({ workflows: [flow] });
    const execution = await t.start(flow, null, { id: "run" });
    for (let lives = 1; lives < 3; lives++) {
      await t.settle();
      expect(seen).toHaveLength(lives);
      await t.crash();
    }
    await t.clock.advance("10m");
    await execution.result();
    expect(new Set(seen.map(({ attemptId }) => attemptId)).size).toBe(seen.length);
  });
});

describe("now()", () => {
  test("is the virtual time, in tasks and in what is returned", async () => {
    const flow = workflow({ name: "now" })
      .phase("a", { process: ({ now }) => now() })
      .sleep("nap", "1h")
      .returns(async ({ phases, now }) => ({ waited: now() - (await phases.a.reduce((_, at) => at, 0)) }));
    await using t = await testRondo({ workflows: [flow] });
    const execution = await t.start(flow, null);
    await t.clock.advance("1h");
    expect(await execution.result()).toEqual({ waited: 3_600_000 });
  });
});

describe("fake timers of a test", () => {
  afterEach(() => {
    vi.useRealTimers();
  });

  test("do not hold testRondo up", async () => {
    vi.useFakeTimers();
    const flow = workflow({ name: "fake" })
      .phase("a", { process: () => 1 })
      .sleep("nap", "1d")
      .returns(({ phases }) => phases.a.count);
    await using t = await testRondo({ workflows: [flow] });
    const execution = await t.start(flow, null);
    await t.clock.advance("1d");
    expect(await execution.result()).toBe(1);
  });
});

test("a directory that is in use is refused with a code, and with who has it", async () => {
  const store = `file:${temporaryDirectory()}`;
  await using _owner = await openRondo({ store });
  const refused = await failure(openRondo({ store }));
  expect(refused).toBeInstanceOf(DirectoryInUse);
  expect(refused).toBeInstanceOf(RondoError);
  expect(refused).toMatchObject({ code: "conflict", owner: { pid: process.pid } });
});
