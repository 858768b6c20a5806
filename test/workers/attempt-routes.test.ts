// Routes that an attempt's own token opens, over HTTP.
import { describe, expect, onTestFinished, test } from "vitest";
import { HttpConnection } from "../../src/net/http-connection.ts";
import type { Claimed, WorkItem } from "../../src/protocol/worker-wire.ts";
import { bindRoutes } from "../../src/server/route.ts";
import { workerRoutes } from "../../src/server/worker-protocol/worker-routes.ts";
import { serveRoutes } from "../fixtures/workers/serve-routes-fixture.ts";
import { DONE, SessionFixture, STARTED, tasksPhase } from "../fixtures/workers/session-fixture.ts";

const first = ({ work }: Claimed) => work[0] as WorkItem;

type Call = (
  method: string,
  path: string,
  token: string | null,
  body?: unknown,
) => Promise<[number, unknown]>;

/** Real HTTP over the sessions; turns of the engine come by themselves, time stands still. */
async function serve(fixture: SessionFixture): Promise<Call> {
  const served = await serveRoutes(bindRoutes(workerRoutes, fixture.sessions));
  const connection = new HttpConnection({ address: served.url });
  onTestFinished(async () => {
    connection.close();
    await served.close();
  });
  return async (method, path, token, body) => {
    const { status, text } = await connection.send({
      method,
      path,
      headers: token === null ? {} : { authorization: `Bearer ${token}` },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    return [status, text === "" ? null : JSON.parse(text)];
  };
}

describe("a claim that waits", () => {
  /** The parts of its answer, as they come. */
  async function claim(
    keepAlive: string | null,
  ): Promise<{ fixture: SessionFixture; parts: string[]; end: Promise<void> }> {
    const fixture = await SessionFixture.open();
    fixture.join("one", ["w.a"]);
    const served = await serveRoutes(bindRoutes(workerRoutes, fixture.sessions));
    onTestFinished(() => served.close());
    const answered = fetch(`${served.url}/v1/workers/one/claim`, {
      method: "POST",
      headers: {
        "content-type": "application/json",
        ...(keepAlive === null ? {} : { "rondo-keep-alive": keepAlive }),
      },
      body: JSON.stringify({ max: 1, waitMs: 10_000 }),
    });
    const parts: string[] = [];
    const end = answered.then(async ({ status, body }) => {
      expect(status).toBe(200);
      for await (const part of body ?? []) parts.push(Buffer.from(part).toString());
    });
    while (!fixture.engine.overview().workers.some(({ id }) => id === "one") || served.counts.size === 0)
      await new Promise((resolve) => setImmediate(resolve));
    return { fixture, parts, end };
  }

  const arrived = async (parts: readonly string[], n: number) => {
    while (parts.length < n) await new Promise((resolve) => setImmediate(resolve));
  };

  test("shows signs of life where they are asked for, ahead of its answer", async () => {
    const { fixture, parts, end } = await claim("3000");
    await fixture.clock.settle();
    for (const n of [1, 2, 3]) {
      await fixture.clock.advance(3_000);
      await arrived(parts, n);
    }
    expect(parts).toEqual([" ", " ", " "]);
    await fixture.start("e1", [tasksPhase("a", [7])]);
    await end;
    const { work } = JSON.parse(parts.join("")) as Claimed;
    expect(work).toMatchObject([{ execution: "e1", task: 7 }]);
    await fixture.clock.advance(60_000);
    expect(parts.join("").startsWith("   {")).toBe(true);
  });

  test.each([null, "no", "-5", ""])("has one part only if the header is %j", async (header) => {
    const { fixture, parts, end } = await claim(header);
    await fixture.clock.settle();
    await fixture.clock.advance(10_000);
    await end;
    expect(parts).toHaveLength(1);
  });
});

const TWO_PHASES = {
  name: "w",
  phases: [tasksPhase("a", [0, 1, 2]), tasksPhase("b", ["x"])],
};

async function inSecondPhase(): Promise<{ fixture: SessionFixture; call: Call; work: WorkItem }> {
  const fixture = await SessionFixture.open();
  fixture.join("one", ["w.a", "w.b"]);
  await fixture.start("e1", TWO_PHASES);
  const done = (await fixture.claim("one")).work;
  for (const item of done)
    await fixture.tell("one", [
      item,
      1,
      item.number === 1
        ? { kind: "receipt", status: "done", result: null }
        : { kind: "receipt", status: "done", result: item.number * 10 },
    ]);
  const work = first(await fixture.claim("one"));
  return { fixture, call: await serve(fixture), work };
}

describe("earlier results", () => {
  test("are read by the attempt's token, with a cursor or without", async () => {
    const { call, work } = await inSecondPhase();
    const [status, page] = await call("GET", `/v1/attempts/${work.attempt}/results/a/a`, work.token);
    expect(status).toBe(200);
    expect(page).toEqual({
      data: [
        { task: 0, status: "done", result: 0 },
        { task: 1, status: "done", result: null },
        { task: 2, status: "done", result: 20 },
      ],
      next: null,
    });
    const [, visit] = await call(
      "GET",
      `/v1/attempts/${work.attempt}/results/a/a?visit=1&cursor=1-1000`,
      work.token,
    );
    expect((visit as { data: unknown[] }).data).toHaveLength(3);
    const [, none] = await call("GET", `/v1/attempts/${work.attempt}/results/a/a?visit=7`, work.token);
    expect(none).toEqual({ data: [], next: null });
  });

  test("come page by page where they are many", async () => {
    const fixture = await SessionFixture.open();
    fixture.join("one", ["w.a", "w.b"], 10_000);
    await fixture.start("e1", {
      name: "w",
      phases: [tasksPhase("a", Array(400).fill("x")), tasksPhase("b", ["x"])],
    });
    const result = "y".repeat(10_000);
    for (let n = 0; n < 400; ) {
      const { work } = await fixture.claim("one", 10_000);
      n += work.length;
      for (const item of work)
        await fixture.tell("one", [item, 1, { kind: "receipt", status: "done", result }]);
    }
    const work = first(await fixture.claim("one"));
    const call = await serve(fixture);
    const tasks: number[] = [];
    let pages = 0;
    for (let cursor: string | null = ""; cursor !== null; pages++) {
      const query: string = cursor === "" ? "" : `?cursor=${cursor}`;
      const path = `/v1/attempts/${work.attempt}/results/a/a${query}`;
      const [, page] = (await call("GET", path, work.token)) as [
        number,
        { data: { task: number }[]; next: string | null },
      ];
      tasks.push(...page.data.map(({ task }) => task));
      cursor = page.next;
    }
    expect(tasks.sort((a, b) => a - b)).toEqual(Array.from({ length: 400 }, (_, i) => i));
    expect(pages).toBeGreaterThan(2);
  });

  test("are given with the tasks themselves, by their numbers", async () => {
    const { call, work } = await inSecondPhase();
    const path = `/v1/attempts/${work.attempt}/results/a/a`;
    expect(await call("GET", `${path}?tasks=2,0,77`, work.token)).toEqual([
      200,
      {
        data: [
          { task: 2, status: "enumerated", data: 2 },
          { task: 0, status: "enumerated", data: 0 },
        ],
        next: null,
      },
    ]);
    expect((await call("GET", `${path}?tasks=x`, work.token))[0]).toBe(422);
  });

  test("C19 are not opened by another token, nor by none, nor after the lease", async () => {
    const { fixture, call, work } = await inSecondPhase();
    const path = `/v1/attempts/${work.attempt}/results/a/a`;
    expect((await call("GET", path, null))[0]).toBe(401);
    expect((await call("GET", path, `${work.token.slice(0, -1)}A`))[0]).toBe(403);
    expect((await call("GET", path.replace(".1.b", ".2.b"), work.token))[0]).toBe(403);
    await fixture.tell("one", [work, 1, DONE]);
    expect((await call("GET", path, work.token))[0]).toBe(409);
  });
});

describe("the routes of a script's runs", () => {
  async function script(): Promise<{ fixture: SessionFixture; call: Call; work: WorkItem }> {
    const fixture = await SessionFixture.open();
    fixture.join("one", ["~script"]);
    const runs = [
      { name: "one", expression: "s => s + 1" },
      { name: "two", expression: "s => s * 2" },
    ];
    await fixture.start("e1", [{ name: "map", handlers: { map: { script: runs, state: 20 } } }]);
    const work = first(await fixture.claim("one"));
    return { fixture, call: await serve(fixture), work };
  }

  test("give state and expression, take status and logs, from accepted to done", async () => {
    const { fixture, call, work } = await script();
    const at = `/v1/attempts/${work.attempt}`;
    const status = (body: object) => call("POST", `${at}/status`, work.token, body);
    expect((await status({ status: "accepted" }))[0]).toBe(200);
    expect((await status({ status: "started" }))[0]).toBe(200);
    expect(await call("GET", `${at}/runs/one`, work.token)).toEqual([
      200,
      { state: 20, expression: "s => s + 1" },
    ]);
    expect((await call("GET", `${at}/runs/two`, work.token))[0]).toBe(409);
    await status({ status: "started", run: "one" });
    await call("POST", `${at}/logs`, work.token, { lines: [{ text: "hi", run: "one" }, { text: "ho" }] });
    expect((await status({ status: "running" }))[1]).toEqual({ attempt: work.attempt, word: "continue" });
    await status({ status: "done", run: "one", state: 21 });
    expect(await call("GET", `${at}/runs/1`, work.token)).toEqual([
      200,
      { state: 21, expression: "s => s * 2" },
    ]);
    await status({ status: "done", run: "two", state: 42 });
    expect(await status({ status: "done", result: 42 })).toEqual([
      200,
      { attempt: work.attempt, verdict: "accepted" },
    ]);
    expect(await fixture.logs("e1")).toEqual(["hi", "ho"]);
    expect(await fixture.events("e1", "tasks.accepted")).toMatchObject([{ tasks: [0], attempts: [1] }]);
    expect(await fixture.events("e1", "task.run.started")).toMatchObject([
      { name: "one", index: 0, attempt: 1 },
    ]);
    expect((await fixture.events("e1", "task.run")).map(({ state }) => state)).toEqual(["21", "42"]);
    expect((await fixture.status("e1")).status).toBe("done");
    expect((await status({ status: "done", result: 42 }))[1]).toMatchObject({
      verdict: expect.not.stringMatching("accepted"),
    });
  });

  test("a crash ends the attempt as crashed, and another is made", async () => {
    const { fixture, call, work } = await script();
    await call("POST", `/v1/attempts/${work.attempt}/status`, work.token, {
      status: "crashed",
      message: "segfault",
    });
    await fixture.clock.advance(2_000);
    expect(first(await fixture.claim("one")).n).toBe(2);
  });
});

test("the status done of an enumeration needs its total; without it the attempt goes on", async () => {
  const fixture = await SessionFixture.open();
  fixture.join("one", ["w.a"]);
  await fixture.start("e1", [{ name: "a", handlers: { a: { use: "w.a", enumerate: { use: "w.a" } } } }]);
  const list = first(await fixture.claim("one"));
  const call = await serve(fixture);
  const status = (body: object) => call("POST", `/v1/attempts/${list.attempt}/status`, list.token, body);
  for (const body of [{ status: "done" }, { status: "done", result: 2 }])
    expect(await status(body)).toMatchObject([422, { code: "invalid_input", path: "total" }]);
  expect((await fixture.status("e1")).status).toBe("running");
  expect(await status({ status: "running" })).toEqual([200, { attempt: list.attempt, word: "continue" }]);
  expect((await status({ status: "done", total: 0 }))[1]).toMatchObject({ verdict: "accepted" });
  expect((await fixture.status("e1")).status).toBe("done");
});

describe("after a restart of the server", () => {
  test("results are read as before, with a visit, a cursor, or neither", async () => {
    const { fixture, work } = await inSecondPhase();
    await fixture.restart();
    const call = await serve(fixture);
    const tasks = async (query: string) => {
      const path = `/v1/attempts/${work.attempt}/results/a/a${query}`;
      const [, page] = (await call("GET", path, work.token)) as [number, { data: { task: number }[] }];
      return page.data.map(({ task }) => task);
    };
    expect(await tasks("")).toEqual([0, 1, 2]);
    expect(await tasks("?visit=1")).toEqual([0, 1, 2]);
    expect(await tasks("?cursor=1-1000")).toEqual([0, 1, 2]);
    expect(await tasks("?visit=7")).toEqual([]);
  });

  test.each([
    ["began", "one"],
    ["was only given, as far as is known", "unknown"],
  ])(
    "status and logs of what a worker %s go on where they were; nothing is skipped or doubled",
    async (how, worker) => {
      const fixture = await SessionFixture.open();
      fixture.join("one", ["~script"]);
      const runs = [
        { name: "one", expression: "s => s + 1" },
        { name: "two", expression: "s => s * 2" },
      ];
      await fixture.start("e1", [{ name: "map", handlers: { map: { script: runs, state: 20 } } }]);
      const work = first(await fixture.claim("one"));
      const at = `/v1/attempts/${work.attempt}`;
      const before = await serve(fixture);
      if (how === "began") {
        await before("POST", `${at}/status`, work.token, { status: "started" });
        await before("POST", `${at}/logs`, work.token, { lines: [{ text: "a" }, { text: "b" }] });
        await before("POST", `${at}/status`, work.token, { status: "done", run: "one", state: 21 });
      }
      await fixture.restart();
      const call = await serve(fixture);
      const status = (body: object) => call("POST", `${at}/status`, work.token, body);
      expect(await status({ status: "running" })).toEqual([200, { attempt: work.attempt, word: "continue" }]);
      expect(fixture.engine.openAttempts({ worker: null, max: 9 })).toMatchObject([
        { attempt: work.attempt, worker },
      ]);
      for (const text of ["c", "d"])
        expect(await call("POST", `${at}/logs`, work.token, { lines: [{ text }] })).toEqual([
          200,
          { attempt: work.attempt, verdict: "accepted" },
        ]);
      if (how !== "began") await status({ status: "done", run: "one", state: 21 });
      expect((await status({ status: "done", run: "two", state: 42 }))[1]).toMatchObject({
        verdict: "accepted",
      });
      expect(await status({ status: "done", run: "three", state: 0 })).toMatchObject([
        422,
        { code: "invalid_input", hint: "the runs of the script are one, two" },
      ]);
      expect((await status({ status: "done", result: 42 }))[1]).toMatchObject({ verdict: "accepted" });
      expect(await fixture.logs("e1")).toEqual(how === "began" ? ["a", "b", "c", "d"] : ["c", "d"]);
      const finished = await fixture.events("e1", "task.run");
      expect(finished.map(({ name, index, state }) => [name, index, state])).toEqual([
        ["one", 0, "21"],
        ["two", 1, "42"],
      ]);
      expect((await fixture.status("e1")).status).toBe("done");
    },
  );

  test("an attempt that shows itself too late is told so, and opens nothing", async () => {
    const { fixture, work } = await inSecondPhase();
    await fixture.tell("one", [work, 1, STARTED]);
    await fixture.restart();
    await fixture.clock.advance(31_000);
    const call = await serve(fixture);
    const at = `/v1/attempts/${work.attempt}`;
    expect((await call("POST", `${at}/status`, work.token, { status: "running" }))[0]).toBe(409);
    expect((await call("POST", `${at}/logs`, work.token, { lines: [{ text: "x" }] }))[0]).toBe(409);
    expect((await call("GET", `${at}/results/a/a`, work.token))[0]).toBe(409);
    expect(
      (await call("POST", `${at}/status`, work.token.replace(/.$/, "~"), { status: "running" }))[0],
    ).toBe(403);
    // Its one receipt is heard.
    expect((await call("POST", `${at}/status`, work.token, { status: "done", result: 1 }))[1]).toMatchObject({
      verdict: "accepted",
    });
    expect(await fixture.logs("e1")).toEqual([]);
  });

  test("a cancel is told to whoever beats by its token, registered or not", async () => {
    const { fixture, work } = await inSecondPhase();
    await fixture.tell("one", [work, 1, STARTED]);
    await fixture.restart();
    const call = await serve(fixture);
    const running = () =>
      call("POST", `/v1/attempts/${work.attempt}/status`, work.token, { status: "running" });
    expect((await running())[1]).toMatchObject({ word: "continue" });
    await fixture.control("e1", "cancel");
    expect((await running())[1]).toMatchObject({ word: "cancel" });
    fixture.join("one", ["w.b"]);
    expect((await running())[1]).toMatchObject({ word: "cancel" });
    await fixture.clock.advance(31_000);
    expect((await running())[1]).toMatchObject({ word: "lost" });
  });
});

test("scaling figures count ready tasks and what remote workers hold", async () => {
  const fixture = await SessionFixture.open();
  fixture.join("one", ["w.a"], 10);
  const call = await serve(fixture);
  expect((await call("GET", "/v1/scaling", null))[1]).toEqual({
    tasks: 0,
    ready: 0,
    held: 0,
    workers: 1,
    capacity: 10,
    utilisation: 0,
    desired: 0,
  });
  await fixture.start("e1", [tasksPhase("a", Array(35).fill("x"))]);
  const { work } = await fixture.claim("one", 5);
  await fixture.tell("one", [work[0] as WorkItem, 1, STARTED]);
  expect((await call("GET", "/v1/scaling?use=w.a", null))[1]).toEqual({
    tasks: 35,
    ready: 30,
    held: 5,
    workers: 1,
    capacity: 10,
    utilisation: 0.5,
    desired: 4,
  });
  expect((await call("GET", "/v1/scaling?use=w.other", null))[1]).toMatchObject({ tasks: 0, workers: 0 });
  const [, list] = (await call("GET", "/v1/workers", null)) as [number, { data: object[] }];
  expect(list.data).toMatchObject([{ id: "one", kind: "remote", capacity: 10, held: 5, draining: false }]);
});
