// Streams and published values of an execution: written by its code, followed while it runs, read later, across attempts.
import { flow, StreamFold, workflow } from "rondo";
import { testRondo } from "rondo/testing";
import { describe, expect, test } from "vitest";
import { all, open } from "../../fixtures/sdk/open-rondo-fixture.ts";

/** Writes tokens in one step before an approval and in another one after it. */
const agent = flow("agent", async ({ step, stream, waitFor, publish }) => {
  const out = stream("answer");
  await step("first", () => {
    for (const token of ["a", "b", "c"]) void out.write(token);
  });
  publish({ state: "waits", percent: 50 });
  await waitFor("approved");
  await step("second", async () => {
    publish({ state: null, percent: 90 });
    for (const token of ["d", "e"]) await out.write(token);
  });
  return "done";
});

describe("a stream", () => {
  test("is followed while it is written, and ends with its task", async () => {
    const rondo = await open([agent]);
    const execution = await rondo.start(agent, null);
    const following = all(execution.stream<string>("answer"));
    const seen: unknown[] = [];
    for await (const { chunks } of execution.stream("answer")) {
      seen.push(...chunks);
      if (seen.length === 3) await execution.signal("approved");
    }
    expect(seen).toEqual(["a", "b", "c", "d", "e"]);
    const pieces = await following;
    expect(pieces.at(-1)).toMatchObject({ stream: "answer", chunks: [], end: true });
    expect(pieces.map(({ step }) => step)).toEqual(["first", "second", undefined]);
    await execution.result();
    const later = execution.stream<string>("answer");
    expect(await later.chunks()).toEqual(["a", "b", "c", "d", "e"]);
    expect(await all(later)).toEqual(pieces);
    const [first] = pieces;
    expect(await all(execution.stream("answer", { after: first?.id ?? "" }))).toEqual(pieces.slice(1));
    expect(await execution.stream("other").chunks()).toEqual([]);
    expect(await all(execution.logs())).toEqual([]);
  });

  test("of a step that runs again has the chunks of the last run only, in the place of the first", async () => {
    let runs = 0;
    const flaky = flow("flaky", async ({ step, stream }) => {
      const out = stream("answer");
      await step("one", () => out.write("one"));
      await step("two", { retry: { attempts: 3, min: 1 } }, async () => {
        runs++;
        await out.write(`two of ${runs}`);
        if (runs < 3) throw new Error("not yet");
        await out.write("and more");
      });
      await step("three", () => out.write("three"));
    });
    await using t = await testRondo({ workflows: [flaky] });
    const execution = await t.start(flaky, null);
    await t.clock.advance("1m");
    await execution.result();
    expect(await execution.stream("answer").chunks()).toEqual(["one", "two of 3", "and more", "three"]);
    const fold = new StreamFold();
    const restarts: boolean[] = [];
    for await (const piece of execution.stream("answer")) restarts.push(fold.add(piece));
    expect(restarts).toContain(true);
    expect(fold.hasEnded).toBe(true);
  });

  test("survives a crash: a finished step keeps its chunks, one that was under way writes anew", async () => {
    let isFirst = true;
    const crashing = flow("crashing", async ({ step, stream }) => {
      const out = stream("answer");
      await step("one", () => out.write("one"));
      await step("two", async () => {
        await out.write("half");
        if (isFirst) await new Promise(() => {});
        await out.write("whole");
      });
    });
    await using t = await testRondo({ workflows: [crashing] });
    const execution = await t.start(crashing, null);
    await t.clock.advance("1s");
    expect(await execution.stream("answer").chunks()).toEqual(["one", "half"]);
    isFirst = false;
    await t.crash();
    await t.clock.advance("10m");
    await execution.result();
    expect(await execution.stream("answer").chunks()).toEqual(["one", "half", "whole"]);
    for (const { index, chunks } of await all(execution.stream("answer")))
      expect(index === 0 || chunks.length > 0).toBe(true);
  });

  test("of several tasks is read by task", async () => {
    const wide = workflow({ name: "wide" }).phase("say", {
      enumerate: () => [0, 1, 2],
      process: async ({ task, stream }) => {
        const out = stream("words");
        await out.write({ word: task });
        out.end();
      },
    });
    const rondo = await open([wide]);
    const execution = await rondo.start(wide, null);
    await execution.result();
    expect(await execution.stream("words", { task: 1 }).chunks()).toEqual([{ word: 1 }]);
    expect(await execution.stream("words").chunks()).toHaveLength(3);
  });

  test("refuses chunks that cannot be stored, too much, and writes inside of a map or after its end", async () => {
    const refused = (
      name: string,
      write: (out: { write(chunk: unknown): Promise<void>; end(): void }) => unknown,
    ) => flow(name, async ({ stream }) => void (await write(stream("s"))));
    const inMap = flow("in-map", async ({ map, stream }) => {
      await map("each", [1], (item) => stream("s").write(item));
    });
    const flows = [
      refused("function", (out) => out.write(() => 1)),
      refused("large", (out) => out.write("x".repeat(70_000))),
      refused("ended", (out) => {
        out.end();
        return out.write("late");
      }),
      refused("many", async (out) => {
        for (let i = 0; i < 200; i++) await out.write("x".repeat(60_000));
      }),
      inMap,
    ];
    const rondo = await open(flows);
    const errors: string[] = [];
    for (const one of flows) await rondo.run(one, null).catch((error: Error) => errors.push(error.message));
    expect(errors).toHaveLength(5);
    expect(errors[0]).toContain('a chunk of the stream "s"');
    expect(errors[1]).toContain("at most 65536 are stored");
    expect(errors[2]).toContain("has ended");
    expect(errors[3]).toContain("8388608 bytes");
    expect(errors[4]).toContain('the map "each"');
  });

  test("holds its writer back until chunks are stored", async () => {
    const much = flow("much", async ({ stream }) => {
      const out = stream("s");
      for (let i = 0; i < 20; i++) await out.write("x".repeat(60_000));
    });
    const rondo = await open([much]);
    const execution = await rondo.start(much, null);
    await execution.result();
    expect((await execution.stream<string>("s").chunks()).length).toBe(20);
  });
});

describe("published values", () => {
  test("are merged by key, removed by null, seen among the events, and kept after the end", async () => {
    const rondo = await open([agent]);
    const execution = await rondo.start(agent, null);
    for await (const event of execution.events())
      if (event.kind === "workflow.published") {
        expect(event).toMatchObject({ n: 0, attempt: 1, values: { state: "waits", percent: 50 } });
        break;
      }
    expect(await execution.published()).toEqual({ state: "waits", percent: 50 });
    await execution.signal("approved");
    await execution.result();
    const { percent } = await execution.published<{ percent: number }>();
    expect(percent).toBe(90);
    expect((await execution.describe()).published).toEqual({ percent: 90 });
  });

  test("are bounded: the keys that were published longest ago are dropped", async () => {
    const large = flow("large", async ({ publish, step }) => {
      for (const key of ["a", "b", "c"]) {
        publish({ [key]: "x".repeat(30_000) });
        await step(key, () => 1);
      }
    });
    const rondo = await open([large]);
    const execution = await rondo.start(large, null);
    await execution.result();
    expect(Object.keys(await execution.published())).toEqual(["b", "c"]);
  });

  test("survive a crash, and a snapshot", async () => {
    const steps = flow("steps", async ({ publish, step, waitFor }) => {
      for (let n = 1; n <= 30; n++) {
        publish({ n });
        await step(`n${n}`, () => n);
      }
      await waitFor("go");
    });
    await using t = await testRondo({ workflows: [steps] });
    const execution = await t.start(steps, null);
    await t.settle();
    await t.crash();
    expect(await execution.published()).toEqual({ n: 30 });
    await execution.signal("go");
    await t.clock.advance("10m");
    await execution.result();
    expect(await execution.published()).toEqual({ n: 30 });
  });

  test("must be an object of values that can be stored", async () => {
    const wrong = flow("wrong", async ({ publish }) => publish([1] as never));
    const tooMuch = flow("too-much", async ({ publish }) => publish({ a: "x".repeat(70_000) }));
    const rondo = await open([wrong, tooMuch]);
    await expect(rondo.run(wrong, null)).rejects.toThrow("publish takes an object");
    await expect(rondo.run(tooMuch, null)).rejects.toThrow("publish is 70008 bytes");
  });
});
