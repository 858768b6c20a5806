// What a program holds of an execution: its result, its journal, its past, and the ways to act on it.
import { ExecutionCancelled, ExecutionFailed, Fatal, RondoError, workflow } from "rondo";
import { testRondo } from "rondo/testing";
import { describe, expect, test } from "vitest";
import { all, failure, open } from "../../fixtures/sdk/open-rondo-fixture.ts";

const waits = workflow<unknown>({ name: "waits" })
  .waitFor("go")
  .phase("after", { tasks: [1, 2, 3], process: ({ task }) => task * 2 })
  .returns(({ phases }) => phases.go.value);

describe("a handle", () => {
  test("is not thenable, so an async function can give it back", async () => {
    const rondo = await open([waits]);
    const execution = await rondo.start(waits, 1);
    expect((execution as { then?: unknown }).then).toBeUndefined();
    const same = await Promise.resolve(execution);
    expect(same).toBe(execution);
  });

  test("of an execution that does not exist says so when it is used, not before", async () => {
    const rondo = await open([waits]);
    const nobody = rondo.execution("nobody");
    const uses = [
      nobody.describe(),
      nobody.result(),
      nobody.why(),
      nobody.pause(),
      nobody.signal("go"),
      all(nobody.events()),
      rondo.stateAt("nobody", 1),
    ];
    const refused = await Promise.all(uses.map((use) => failure(use)));
    for (const refusal of refused) expect(refusal).toMatchObject({ code: "not_found" });
  });

  test("that is disposed detaches and cancels nothing", async () => {
    const rondo = await open([waits]);
    const { id } = await rondo.start(waits, 1);
    {
      await using handle = rondo.execution(id);
      expect(await handle.status()).toBe("running");
    }
    await rondo.execution(id).signal("go", 5);
    expect(await rondo.execution(id).result()).toBe(5);
  });
});

describe("startMany()", () => {
  test("gives each start its outcome, in their order", async () => {
    const rondo = await open([waits]);
    await rondo.start(waits, 1, { id: "old" });
    const outcomes = await rondo.startMany(waits, [
      { input: 1 },
      { input: 1, id: "old" },
      { input: 2, id: "old" },
      { input: new Map() as never },
      { input: 3, id: "new", tags: { team: "ops" } },
    ]);
    expect(outcomes).toMatchObject([
      { existed: false, error: null },
      { execution: { id: "old" }, existed: true, error: null },
      { execution: null, existed: false, error: { code: "conflict" } },
      { execution: null, existed: false, error: { code: "not_storable" } },
      { execution: { id: "new" }, existed: false, error: null },
    ]);
    expect((await rondo.list()).data).toHaveLength(3);
    await outcomes[4]?.execution?.signal("go", 5);
    expect(await outcomes[4]?.execution?.result()).toBe(5);
    expect(await failure(rondo.startMany("nope", [{ input: 1 }]))).toMatchObject({ code: "not_found" });
  });

  test("of very many has only some under way at a time", async () => {
    const rondo = await open([waits]);
    let taken = 0;
    const starts = Array.from({ length: 1_100 }, (_, i) => ({
      id: `many-${i}`,
      get input() {
        taken++;
        return i;
      },
    }));
    const all = rondo.startMany(waits, starts);
    const takenAtOnce = taken;
    const outcomes = await all;
    expect(takenAtOnce).toBeGreaterThan(1);
    expect(takenAtOnce).toBeLessThan(starts.length);
    expect(taken).toBe(starts.length);
    expect(outcomes.map(({ execution }) => execution?.id)).toEqual(starts.map(({ id }) => id));
    expect((await rondo.execution("many-1099").describe()).input).toBe(1_099);
  });

  test("under test gives handles that survive a crash", async () => {
    await using t = await testRondo({ workflows: [waits] });
    const [outcome] = await t.startMany(waits, [{ input: 1 }]);
    await t.crash();
    await outcome?.execution?.signal("go", 7);
    expect(await outcome?.execution?.result()).toBe(7);
  });
});

describe("result()", () => {
  test("waits for the end, also when many wait, and also after the end", async () => {
    const rondo = await open([waits]);
    const execution = await rondo.start(waits, 1);
    const waiting = [execution.result(), execution.result(), rondo.execution(execution.id).result()];
    await execution.signal("go", "x");
    expect(await Promise.all(waiting)).toEqual(["x", "x", "x"]);
    expect(await execution.result()).toBe("x");
  });

  test("throws ExecutionFailed or ExecutionCancelled with the execution", async () => {
    const fails = workflow({ name: "fails" }).phase("a", {
      process: () => {
        throw new Fatal("boom");
      },
    });
    const rondo = await open([waits, fails]);
    const failed = await failure(rondo.run(fails, null));
    expect(failed).toBeInstanceOf(ExecutionFailed);
    expect(failed).toMatchObject({ execution: { status: "failed", error: { message: "Fatal: boom" } } });
    const execution = await rondo.start(waits, 1);
    const result = failure(execution.result());
    await execution.cancel({ by: "ann", reason: "not needed" });
    expect(await result).toBeInstanceOf(ExecutionCancelled);
    expect(await result).toMatchObject({
      code: "cancelled",
      message: expect.stringContaining("ann: not needed"),
    });
    expect(await failure(execution.result())).toBeInstanceOf(ExecutionCancelled);
  });

  test("gives up after its timeout, and the execution goes on", async () => {
    await using t = await testRondo({ workflows: [waits] });
    const execution = await t.start(waits, 1);
    const result = failure(execution.result({ timeout: "5s" }));
    await t.clock.advance("5s");
    expect(await result).toBeInstanceOf(RondoError);
    expect(await result).toMatchObject({ code: "timeout" });
    expect(await failure(execution.result({ timeout: "soon" }))).toMatchObject({ path: "timeout" });
    await execution.signal("go", 1);
    expect(await execution.result({ timeout: "5s" })).toBe(1);
  });

  test("gives up when its signal says so, before or while it waits", async () => {
    const rondo = await open([waits]);
    const execution = await rondo.start(waits, 1);
    const controller = new AbortController();
    const result = failure(execution.result({ signal: controller.signal }));
    controller.abort(new Error("enough"));
    expect(await result).toMatchObject({ message: "enough" });
    expect(await failure(execution.result({ signal: controller.signal }))).toMatchObject({
      message: "enough",
    });
    const plain = new AbortController();
    const second = failure(execution.result({ signal: plain.signal }));
    plain.abort();
    expect(await second).toBeInstanceOf(Error);
    await execution.signal("go", 1);
    expect(await execution.result()).toBe(1);
  });

  test("of an execution that goes on when Rondo is closed says so", async () => {
    const rondo = await open([waits]);
    const result = failure((await rondo.start(waits, 1)).result());
    await rondo.close();
    expect(await result).toMatchObject({ code: "not_ready" });
    expect(await failure(rondo.start(waits, 1))).toMatchObject({ code: "not_ready" });
  });
});

describe("events()", () => {
  test("come from the beginning, as they happen, and end with the execution", async () => {
    const rondo = await open([waits]);
    const execution = await rondo.start(waits, 1);
    const kinds: string[] = [];
    let signalled = false;
    for await (const { kind, seq } of execution.events()) {
      kinds.push(kind);
      expect(seq).toBe(kinds.length);
      if (kind === "workflow.handler.started" && !signalled) {
        signalled = true;
        await execution.signal("go", 1);
      }
    }
    expect(kinds[0]).toBe("workflow.created");
    expect(kinds.at(-1)).toBe("workflow.finished");
  });

  test("come from any point", async () => {
    const rondo = await open([waits]);
    const execution = await rondo.start(waits, 1);
    await execution.signal("go", 1);
    await execution.result();
    const whole = await all(execution.events());
    for (let from = 1; from <= whole.length; from++)
      expect(await all(execution.events({ from }))).toEqual(whole.slice(from - 1));
  });

  test("are counts and ranges in summary, rows in full", async () => {
    const rondo = await open([waits]);
    const execution = await rondo.start(waits, 1);
    await execution.signal("go", 1);
    await execution.result();
    const settled = async (detail: "summary" | "full") =>
      (await all(execution.events({ detail }))).find(
        ({ kind, phase }) => kind === "workflow.tasks.settled" && phase === "after",
      );
    expect(await settled("summary")).toMatchObject({ count: 3, ranges: [[0, 2]], done: 3 });
    expect(await settled("full")).toMatchObject({
      count: 3,
      tasks: [
        { n: 0, attempt: 1, status: "done", result: 2 },
        { n: 1, result: 4 },
        { n: 2, result: 6 },
      ],
    });
  });

  test("go on after the end if they are followed, up to the next round and its end", async () => {
    let isBroken = true;
    const flaky = workflow({ name: "flaky" }).phase("a", {
      process: () => {
        if (isBroken) throw new Fatal("boom");
      },
    });
    const rondo = await open([flaky]);
    const execution = await rondo.start(flaky, null);
    const seen: string[] = [];
    for await (const event of execution.events({ follow: true })) {
      seen.push(event.kind);
      if (event.kind !== "workflow.finished") continue;
      if (event["status"] === "done") break;
      isBroken = false;
      await execution.retry();
    }
    expect(seen.filter((kind) => kind === "workflow.finished" || kind === "workflow.retried")).toEqual([
      "workflow.finished",
      "workflow.retried",
      "workflow.finished",
    ]);
  });

  test("stop when the reader stops, and end when Rondo is closed", async () => {
    const rondo = await open([waits]);
    const execution = await rondo.start(waits, 1);
    for await (const event of execution.events()) {
      expect(event.seq).toBe(1);
      break;
    }
    const rest = all(execution.events());
    await execution.describe();
    await rondo.close();
    expect((await rest).at(-1)?.kind).not.toBe("workflow.finished");
  });
});

describe("stateAt()", () => {
  test("shows any past state, as it was then", async () => {
    const rondo = await open([waits]);
    const execution = await rondo.start(waits, 1);
    const early = await execution.describe();
    await execution.signal("go", 1);
    await execution.result();
    const now = await execution.describe();
    expect(await rondo.stateAt(execution.id, early.revision)).toEqual({
      ...early,
      phases: expect.anything() as unknown,
    });
    expect(await rondo.stateAt(execution.id, now.revision)).toEqual(now);
    const statuses: string[] = [];
    for (let seq = 1; seq <= now.revision; seq++) {
      const then = await rondo.stateAt(execution.id, seq);
      expect(then.revision).toBe(seq);
      statuses.push(then.status);
    }
    expect(statuses.lastIndexOf("running")).toBe(now.revision - 2);
    expect(statuses.at(-1)).toBe("done");
  });

  test.each([0, -1, 1.5, 1_000, Number.NaN])(
    "refuses a number that is none of its events: %d",
    async (seq) => {
      const rondo = await open([waits]);
      const { id } = await rondo.start(waits, 1);
      expect(await failure(rondo.stateAt(id, seq))).toMatchObject({ code: "invalid_input" });
    },
  );
});

describe("acting on an execution", () => {
  test("pause, resume, cancel and retry, each allowed only when it makes sense", async () => {
    const rondo = await open([waits]);
    const execution = await rondo.start(waits, 1);
    expect(await failure(execution.resume())).toMatchObject({ code: "wrong_status" });
    await execution.pause({ by: "ann", reason: "lunch" });
    expect(await execution.why()).toBe("It is paused by ann (lunch); resume it to go on.");
    await execution.pause();
    await execution.signal("go", 1);
    expect(await execution.status()).toBe("paused");
    await execution.resume();
    expect(await execution.result()).toBe(1);
    for (const act of ["pause", "resume", "cancel", "retry"] as const)
      expect([act, (await failure(execution[act]())).code]).toEqual([act, "wrong_status"]);
  });

  test("with an id, a repetition changes nothing", async () => {
    const rondo = await open([waits]);
    const execution = await rondo.start(waits, 1);
    await execution.pause({ id: "p1" });
    await execution.resume();
    await execution.pause({ id: "p1" });
    expect(await execution.status()).toBe("running");
    await execution.signal("other", 1, { id: "s1" });
    await execution.signal("other", 1, { id: "s1" });
    await execution.signal("go", 1);
    const events = await all(execution.events());
    expect(events.filter(({ kind }) => kind === "workflow.signalled").map(({ signal }) => signal)).toEqual([
      "other",
      "go",
    ]);
    expect(events.filter(({ kind }) => kind === "workflow.paused")).toHaveLength(1);
  });

  test("a deadline cancels with that reason, a start time holds it back", async () => {
    await using t = await testRondo({ workflows: [waits] });
    const now = t.clock.now();
    const late = await t.start(waits, 1, { startAt: now + 60_000 });
    const short = await t.start(waits, 1, { deadline: new Date(now + 30_000) });
    expect(await late.why()).toBe("It starts in 1 m.");
    await t.clock.advance("30s");
    expect(await failure(short.result())).toMatchObject({ name: "ExecutionCancelled", code: "deadline" });
    await t.clock.advance("30s");
    expect((await late.describe()).phase).toBe("go");
  });
});

test("list() gives the newest first, by page and by filter", async () => {
  const done = workflow<unknown>({ name: "done" }).phase("a", {});
  const rondo = await open([waits, done]);
  for (let i = 0; i < 5; i++) await rondo.start(waits, i, { id: `w${i}` });
  for (let i = 0; i < 2; i++) await rondo.run(done, i, { id: `d${i}`, project: "other" });
  const ids = async (options: Parameters<typeof rondo.list>[0]) =>
    (await rondo.list(options)).data.map(({ id }) => id);
  expect(await ids({})).toEqual(["d1", "d0", "w4", "w3", "w2", "w1", "w0"]);
  expect(await ids({ project: "other" })).toEqual(["d1", "d0"]);
  expect(await ids({ workflow: "waits", limit: 2 })).toEqual(["w4", "w3"]);
  expect(await ids({ status: "done" })).toEqual(["d1", "d0"]);
  const pages: string[][] = [];
  let cursor: string | null = null;
  do {
    const page = await rondo.list({ limit: 3, ...(cursor === null ? {} : { cursor }) });
    pages.push(page.data.map(({ id }) => id));
    cursor = page.next;
  } while (cursor !== null);
  expect(pages).toEqual([["d1", "d0", "w4"], ["w3", "w2", "w1"], ["w0"]]);
});
