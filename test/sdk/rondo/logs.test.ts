// Logs of an execution: stored in order, read back, followed, without secrets.
import { workflow } from "rondo";
import { testRondo } from "rondo/testing";
import { describe, expect, test } from "vitest";
import { all, failure, open } from "../../fixtures/sdk/open-rondo-fixture.ts";

const chatty = workflow<{ n: number }>({ name: "chatty" }).phase("a", {
  enumerate: ({ input, log }) => {
    log(`there are ${input.n}`);
    return Array.from({ length: input.n }, (_, i) => i);
  },
  process: async ({ task, log, step, progress, attempt }) => {
    log("begins", { task });
    await step("s", () => log.warn("in the step"));
    progress(1, 2);
    if (task === 1 && attempt === 1) {
      log.error(new Error("not yet"));
      throw new Error("not yet");
    }
    log.debug("ends");
  },
});

describe("stored logs", () => {
  test("come back in order, each line with its attempt", async () => {
    await using t = await testRondo({ workflows: [chatty] });
    const execution = await t.start(chatty, { n: 2 });
    await t.clock.advance("10m");
    await execution.result();
    const lines = await all(execution.logs());
    expect(lines[0]).toEqual({
      order: expect.any(Number),
      at: expect.any(Number),
      phase: "a",
      visit: 1,
      handler: "a",
      task: -1,
      attempt: 1,
      attemptId: expect.stringContaining(`${execution.id}.a.1.a.1.-1.1.`),
      worker: expect.stringMatching(/^local~/),
      level: "info",
      text: "there are 2",
    });
    const of = (task: number, attempt: number) =>
      lines
        .filter((line) => line.task === task && line.attempt === attempt)
        .map(({ level, text }) => (text.startsWith(" ") ? "stack" : `${level} ${text}`));
    expect(of(0, 1)).toEqual(["info begins { task: 0 }", "warn in the step", "progress 1/2", "debug ends"]);
    expect(new Set(of(1, 1))).toEqual(
      new Set([
        "info begins { task: 1 }",
        "warn in the step",
        "progress 1/2",
        "error Error: not yet",
        "stack",
      ]),
    );
    // Its step was done: it is not run again, and says nothing.
    expect(of(1, 2)).toEqual(["info begins { task: 1 }", "progress 1/2", "debug ends"]);
    const orders = lines.map(({ order }) => order);
    expect(orders).toEqual([...orders].sort((a, b) => a - b));
    const middle = lines[Math.floor(lines.length / 2)]?.order ?? 0;
    expect(await all(execution.logs({ after: middle }))).toEqual(lines.filter(({ order }) => order > middle));
  });

  test("survive a crash", async () => {
    await using t = await testRondo({ workflows: [chatty] });
    const execution = await t.start(chatty, { n: 1 });
    await t.settle();
    const before = await all(execution.logs());
    await t.crash();
    expect(await all(execution.logs())).toEqual(before);
    expect(before.length).toBeGreaterThan(3);
  });

  test("of an execution that does not exist are refused, and so is a cursor that is none", async () => {
    const rondo = await open([chatty]);
    expect(await failure(all(rondo.logs("nobody")))).toMatchObject({ code: "not_found" });
    expect(await failure(all(rondo.logs("nobody", { after: -1 })))).toMatchObject({
      code: "invalid_input",
      path: "after",
    });
  });

  test("many lines are read in pieces, none missing", async () => {
    const flood = workflow({ name: "flood" }).phase("a", {
      enumerate: () => Array.from({ length: 300 }, (_, i) => i),
      process: ({ log, task }) => {
        for (let i = 0; i < 5; i++) log(`${task}.${i}`);
      },
    });
    const rondo = await open([flood]);
    const execution = await rondo.start(flood, null);
    await execution.result();
    const texts = (await all(rondo.logs(execution.id))).map(({ text }) => text);
    expect(texts).toHaveLength(1_500);
    expect(new Set(texts).size).toBe(1_500);
  });
});

describe("followed logs", () => {
  test("come as they are written, and end with the execution", async () => {
    const go: (() => void)[] = [];
    const slow = workflow({ name: "slow" }).phase("a", {
      process: async ({ log }) => {
        for (const word of ["one", "two", "three"]) {
          log(word);
          await new Promise<void>((resolve) => go.push(resolve));
        }
        log("end");
      },
    });
    const rondo = await open([slow]);
    const execution = await rondo.start(slow, null);
    const seen: string[] = [];
    for await (const { text } of execution.logs({ follow: true })) {
      seen.push(text);
      go.shift()?.();
    }
    expect(seen).toEqual(["one", "two", "three", "end"]);
  });

  test("end when the handle is disposed, or the engine closed", async () => {
    const stuck = workflow({ name: "stuck" }).phase("a", {
      process: ({ log }) => {
        log("hello");
        return new Promise(() => {});
      },
    });
    const rondo = await open([stuck]);
    const execution = await rondo.start(stuck, null);
    for (const end of [() => execution[Symbol.asyncDispose](), () => rondo.close({ graceMs: 0 })]) {
      const seen: string[] = [];
      let ended: PromiseLike<void> | null = null;
      for await (const { text } of execution.logs({ follow: true })) {
        seen.push(text);
        ended = end();
      }
      await ended;
      expect(seen).toEqual(["hello"]);
    }
  });

  test("go on through a crash", async () => {
    await using t = await testRondo({ workflows: [chatty] });
    const execution = await t.start(chatty, { n: 2 });
    const lines = all(execution.logs({ follow: true }));
    await t.settle();
    await t.crash();
    await t.clock.advance("10m");
    expect((await lines).filter(({ text }) => text === "ends")).toHaveLength(2);
  });
});

describe("secrets", () => {
  test("given at opening are nowhere: not in logs, not in errors, not in what is shown live", async () => {
    const live: unknown[] = [];
    const leaky = workflow({ name: "leaky" }).phase("a", {
      process: ({ log }) => {
        log("with key s3cr3t-key", { key: "s3cr3t-key" });
        throw new Error("refused s3cr3t-key");
      },
      retry: { attempts: 1 },
    });
    const rondo = await open([leaky], { secrets: ["s3cr3t-key"], onLog: (line) => live.push(line) });
    const execution = await rondo.start(leaky, null);
    const error = await failure(execution.result());
    expect(error.message).toContain("refused [redacted]");
    const stored = [
      await all(execution.logs()),
      await all(execution.events({ detail: "full" })),
      await execution.describe(),
      live,
    ];
    expect(JSON.stringify(stored)).not.toContain("s3cr3t");
    expect(JSON.stringify(stored[0])).toContain("with key [redacted] { key: '[redacted]' }");
  });

  test("that are too short are refused before anything is opened", async () => {
    expect(await failure(open([], { secrets: ["abc"] }))).toMatchObject({ code: "invalid_input" });
  });
});
