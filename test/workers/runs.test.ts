// Runs of a script over the worker protocol: what is said twice, out of order or about a run that is not there, and what
// a live attempt reads after a restart, a hand-over and at another node.
import { describe, expect, onTestFinished, test } from "vitest";
import { parseDefinition } from "../../src/kernel/definition/parse-definition.ts";
import { HttpConnection } from "../../src/net/http-connection.ts";
import type { Claimed, WireEventBody, WorkItem } from "../../src/protocol/worker-wire.ts";
import { bindRoutes } from "../../src/server/route.ts";
import { workerRoutes } from "../../src/server/worker-protocol/worker-routes.ts";
import { isRejection, unwrap } from "../../src/std/rejection.ts";
import { serveRoutes } from "../fixtures/workers/serve-routes-fixture.ts";
import { SessionFixture, STARTED, tasksPhase } from "../fixtures/workers/session-fixture.ts";
import { ClusterFixture } from "../fixtures/workers/worker-cluster-fixture.ts";

const SCRIPT = ["r0", "r1", "r2"].map((name) => ({ name, expression: `s => "${name}"` }));
const PHASES = [{ name: "map", handlers: { map: { script: SCRIPT, state: "begin" } } }];

type Answered = [status: number, body: Record<string, unknown>];

/** Asks a server about an attempt, by its token. */
function asking(connection: HttpConnection, { attempt, token }: WorkItem) {
  const call = async (method: string, path: string, body?: unknown): Promise<Answered> => {
    const { status, text } = await connection.send({
      method,
      path: `/v1/attempts/${attempt}/${path}`,
      headers: { authorization: `Bearer ${token}` },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    return [status, JSON.parse(text) as Record<string, unknown>];
  };
  return {
    run: (name: string) => call("GET", `runs/${name}`),
    status: (body: object) => call("POST", "status", body),
    results: (path: string) => call("GET", `results/${path}`),
  };
}

async function serve(fixture: SessionFixture, work: WorkItem): Promise<ReturnType<typeof asking>> {
  const served = await serveRoutes(bindRoutes(workerRoutes, fixture.sessions));
  const connection = new HttpConnection({ address: served.url });
  onTestFinished(async () => {
    connection.close();
    await served.close();
  });
  return asking(connection, work);
}

async function scripted(phases: unknown = PHASES): Promise<{ fixture: SessionFixture; work: WorkItem }> {
  const fixture = await SessionFixture.open();
  fixture.join("one", ["~script", "w.a"]);
  await fixture.start("e1", phases);
  return { fixture, work: (await fixture.claim("one")).work[0] as WorkItem };
}

const journaled = async (fixture: SessionFixture) =>
  (await fixture.events("e1", "task.run")).map(({ name, index, state }) => [name, index, JSON.parse(state)]);

describe("by the attempt's status", () => {
  test("a run that is said to be done twice counts once, and the next one gets the first state", async () => {
    const { fixture, work } = await scripted();
    const { run, status } = await serve(fixture, work);
    await status({ status: "started" });
    expect((await status({ status: "done", run: "r0", state: "a" }))[1]).toMatchObject({
      verdict: "accepted",
    });
    expect((await status({ status: "done", run: "r0", state: "b" }))[1]).toMatchObject({
      verdict: "duplicate",
    });
    expect(await run("r1")).toEqual([200, { state: "a", expression: 's => "r1"' }]);
    expect(await run("r2")).toMatchObject([
      409,
      { code: "wrong_status", hint: "1 of 3 runs are finished; the next is r1" },
    ]);
    // The attempt goes on after the refusal.
    expect(await status({ status: "done", result: "early" })).toMatchObject([
      409,
      { code: "wrong_status", detail: "the attempt is not done: run r1 is not finished" },
    ]);
    for (const name of ["r1", "r2"]) await status({ status: "done", run: name, state: name });
    expect((await status({ status: "done", result: "r2" }))[1]).toMatchObject({ verdict: "accepted" });
    expect(await journaled(fixture)).toEqual([
      ["r0", 0, "a"],
      ["r1", 1, "r1"],
      ["r2", 2, "r2"],
    ]);
  });

  test("2.44 the status of each run is known while the attempt is open", async () => {
    const { fixture, work } = await scripted();
    const { run, status } = await serve(fixture, work);
    const statuses = async () =>
      Promise.all(
        ["r0", "r1", "2"].map(
          async (name) => ((await run(`${name}/status`))[1] as { status: string }).status,
        ),
      );
    expect(await statuses()).toEqual(["pending", "pending", "pending"]);
    await status({ status: "started", run: "r0" });
    expect(await statuses()).toEqual(["running", "pending", "pending"]);
    await status({ status: "done", run: "r0", state: 1 });
    await status({ status: "started", run: "r1" });
    await status({ status: "crashed", run: "r1", message: "no", stats: { durationMs: 3 } });
    expect(await statuses()).toEqual(["finished", "crashed", "pending"]);
    expect((await run("r1/status"))[1]).toEqual({
      attempt: work.attempt,
      worker: "one",
      run: "r1",
      index: 1,
      status: "crashed",
    });
    expect(await run("typo/status")).toMatchObject([404, { code: "not_found" }]);
    await status({ status: "crashed" });
    expect(await run("r1/status")).toMatchObject([409, { code: "stale_attempt" }]);
    expect(await fixture.events("e1", "task.run.crashed")).toMatchObject([
      { reason: "crashed", message: "no", stats: { durationMs: 3, memoryBytes: 0 } },
    ]);
  });

  test.each([
    ["that does not exist", { run: "typo" }, [422, "invalid_input", "the runs of the script are r0, r1, r2"]],
    [
      "that is not the next one",
      { run: "r2" },
      [409, "wrong_status", "0 of 3 runs are finished; the next one is r0"],
    ],
  ])(
    "a run %s is refused with the reason, and the attempt goes on",
    async (_, body, [status, code, hint]) => {
      const { fixture, work } = await scripted();
      const asked = await serve(fixture, work);
      const { run } = asked;
      const said = await asked.status({ status: "done", state: "wrong", ...body });
      expect(said).toMatchObject([status, { code, hint }]);
      expect(await run("r0")).toMatchObject([200, { state: "begin" }]);
      expect(await asked.status({ status: "running" })).toMatchObject([200, { word: "continue" }]);
      expect((await asked.status({ status: "done", run: "r0", state: 1 }))[1]).toMatchObject({
        verdict: "accepted",
      });
      expect(await journaled(fixture)).toEqual([["r0", 0, 1]]);
    },
  );

  test.each(["started", "crashed"])(
    "2.34 that an unknown run has %s is refused, and nothing is recorded",
    async (status) => {
      const { fixture, work } = await scripted();
      const asked = await serve(fixture, work);
      expect(await asked.status({ status, run: "typo", message: "x" })).toMatchObject([
        422,
        { code: "invalid_input" },
      ]);
      expect((await asked.status({ status, run: "r0", message: "x" }))[0]).toBe(200);
      const kinds = ["task.run.started", "task.run.crashed"] as const;
      const facts = await Promise.all(kinds.map((kind) => fixture.events("e1", kind)));
      expect(facts.flat().map(({ name }) => name)).toEqual(["r0"]);
      expect(await fixture.logs("e1")).toEqual([]);
    },
  );

  test("a handler that is not a script has no runs", async () => {
    const { fixture, work } = await scripted([tasksPhase("a", [1])]);
    const { status, run } = await serve(fixture, work);
    expect(await status({ status: "done", run: "zz", state: 1 })).toMatchObject([
      422,
      { code: "invalid_input", detail: "run zz: the handler a is not a script" },
    ]);
    expect((await run("zz"))[0]).toBe(404);
    expect(await journaled(fixture)).toEqual([]);
  });
});

describe("by numbered events", () => {
  const finished = (run: string, state: unknown, index?: number): WireEventBody => ({
    kind: "run_finished",
    run,
    state,
    ...(index === undefined ? {} : { index }),
  });

  test("the same run under new numbers is a duplicate, and its state is not handed on", async () => {
    const { fixture, work } = await scripted();
    await fixture.tell("one", [work, 1, STARTED], [work, 2, finished("r0", "a", 0)]);
    expect((await fixture.tell("one", [work, 3, finished("r0", "b", 0)])).verdicts).toEqual({
      [work.attempt]: "duplicate",
    });
    expect(await journaled(fixture)).toEqual([["r0", 0, "a"]]);
    expect((await (await serve(fixture, work)).run("r1"))[1]).toMatchObject({ state: "a" });
  });

  test.each([
    ["an unknown run", finished("typo", 1), "invalid_input"],
    ["a run with an index that is not its own", finished("r0", 1, 2), "invalid_input"],
    ["a run that is not the next one", finished("r1", 1, 1), "wrong_status"],
  ])(
    "%s is refused by number, with a verdict that ends the attempt at older workers",
    async (_, event, code) => {
      const { fixture, work } = await scripted();
      const answer = await fixture.tell(
        "one",
        [work, 1, STARTED],
        [work, 2, event],
        [work, 3, { kind: "log", text: "x" }],
      );
      expect(answer).toMatchObject({
        stored: { [work.attempt]: 3 },
        verdicts: { [work.attempt]: "stale" },
        refused: { [work.attempt]: { n: 2, code, hint: expect.any(String) } },
      });
      expect(await journaled(fixture)).toEqual([]);
      const next = await fixture.tell("one", [work, 4, finished("r0", "ok", 0)]);
      expect(next).toEqual({ stored: { [work.attempt]: 4 }, verdicts: { [work.attempt]: "accepted" } });
      expect(await fixture.logs("e1")).toEqual(["x"]);
    },
  );

  test.each([
    ["an unknown run", finished("typo", 1)],
    ["a run that is not the next one", finished("r1", 1, 1)],
  ])("%s that is sent again with its number gets the same refusal", async (_, event) => {
    const { fixture, work } = await scripted();
    const log: WireEventBody = { kind: "log", text: "x" };
    const all = [
      [work, 1, STARTED],
      [work, 2, event],
      [work, 3, log],
    ] as const;
    const first = await fixture.tell("one", ...all);
    expect(first.refused?.[work.attempt]).toMatchObject({ n: 2 });
    expect(await fixture.tell("one", ...all)).toEqual(first);
    expect(await fixture.tell("one", [work, 2, event])).toEqual(first);
    // An event that was stored is a repeat like any other.
    expect(await fixture.tell("one", [work, 3, log])).toEqual({
      stored: { [work.attempt]: 3 },
      verdicts: { [work.attempt]: "accepted" },
    });
    const later = await fixture.tell("one", [work, 2, event], [work, 4, finished("r0", "ok", 0)]);
    expect(later).toEqual({ ...first, stored: { [work.attempt]: 4 } });
    expect(await fixture.logs("e1")).toEqual(["x"]);
    expect(await journaled(fixture)).toEqual([["r0", 0, "ok"]]);
  });

  test("each refused event is remembered under its own number, and read anew by another server", async () => {
    const { fixture, work } = await scripted();
    await fixture.tell(
      "one",
      [work, 1, STARTED],
      [work, 2, finished("typo", 1)],
      [work, 3, finished("r2", 1)],
    );
    const again = async (n: number, run: string) =>
      (await fixture.tell("one", [work, n, finished(run, 1)])).refused?.[work.attempt];
    expect(await again(2, "typo")).toMatchObject({ n: 2, code: "invalid_input" });
    expect(await again(3, "r2")).toMatchObject({ n: 3, code: "wrong_status" });
    await fixture.restart();
    fixture.join("one", ["~script"]);
    expect(await again(3, "r2")).toMatchObject({ n: 3, code: "wrong_status" });
    expect(await again(3, "r2")).toMatchObject({ n: 3, code: "wrong_status" });
  });

  test("two requests under way with the same refused event get the same answer", async () => {
    const { fixture, work } = await scripted();
    await fixture.tell("one", [work, 1, STARTED]);
    const [one, other] = await Promise.all([
      fixture.tell("one", [work, 2, finished("typo", 1)]),
      fixture.tell("one", [work, 2, finished("typo", 1)]),
    ]);
    expect(one?.refused?.[work.attempt]).toMatchObject({ n: 2 });
    expect(other).toEqual(one);
  });

  test("a receipt that says done before the last run fails the attempt, and another one is made", async () => {
    const { fixture, work } = await scripted();
    await fixture.tell(
      "one",
      [work, 1, finished("r0", 1)],
      [work, 2, { kind: "receipt", status: "done", result: 1 }],
    );
    await fixture.clock.advance(5_000);
    const [again] = (await fixture.claim("one")).work as [WorkItem];
    expect(again).toMatchObject({ n: 2, finished: 1, state: 1 });
    expect((await fixture.status("e1")).status).toBe("running");
  });
});

describe("a live attempt reads its runs", () => {
  test.each([
    ["was killed", (fixture: SessionFixture) => fixture.restart()],
    [
      "ended gracefully",
      async (fixture: SessionFixture) => {
        await fixture.engine.close();
        await fixture.restart();
      },
    ],
  ])("after the server %s, before and after a finished run", async (_, end) => {
    const { fixture, work } = await scripted();
    await fixture.tell("one", [work, 1, STARTED]);
    await end(fixture);
    const before = await serve(fixture, work);
    expect(await before.run("r0")).toEqual([200, { state: "begin", expression: 's => "r0"' }]);
    expect((await before.run("1"))[0]).toBe(409);
    expect((await before.run("r9"))[0]).toBe(404);
    await before.status({ status: "done", run: "r0", state: { n: 1 } });
    await end(fixture);
    const after = await serve(fixture, work);
    expect(await after.run("r1")).toEqual([200, { state: { n: 1 }, expression: 's => "r1"' }]);
    for (const run of ["r1", "r2"]) await after.status({ status: "done", run, state: run });
    expect((await after.status({ status: "done", result: 1 }))[1]).toMatchObject({ verdict: "accepted" });
    expect((await fixture.status("e1")).status).toBe("done");
  });

  test("where each task is the state of its own script", async () => {
    const tasks = ["x", "y"];
    const fixture = await SessionFixture.open();
    fixture.join("one", ["~script"]);
    await fixture.start("e1", [{ name: "map", handlers: { map: { script: SCRIPT, tasks } } }]);
    const { work } = await fixture.claim("one");
    for (const item of work) await fixture.tell("one", [item, 1, STARTED]);
    await fixture.restart();
    const states = await Promise.all(
      work.map(async (item) => (await (await serve(fixture, item)).run("r0"))[1]["state"]),
    );
    expect(new Set(states)).toEqual(new Set(tasks));
  });

  test("not once its lease is lost", async () => {
    const { fixture, work } = await scripted();
    await fixture.tell("one", [work, 1, STARTED]);
    await fixture.restart();
    await fixture.clock.advance(31_000);
    expect((await (await serve(fixture, work)).run("r0"))[0]).toBe(409);
  });

  test("at a node that does not have its execution", async () => {
    const fixture = await ClusterFixture.open(2);
    const [owner, other] = fixture.nodes as [ClusterFixture["nodes"][0], ClusterFixture["nodes"][0]];
    const definition = unwrap(parseDefinition({ name: "w", phases: PHASES }));
    const id = await fixture.startAt(owner, { definition } as never);
    const registered = owner.sessions.register(
      { name: "t", worker: "w1", handlers: [{ use: "~script" }], capacity: 1 },
      "127.0.0.1",
    );
    if (isRejection(registered)) throw new Error(registered.message);
    const claim = owner.sessions.claim("w1", { max: 1, waitMs: 1_000 }, new AbortController().signal);
    const answer = await fixture.passing(claim as Promise<{ text: string; ended(isWritten: boolean): void }>);
    answer.ended(true);
    const work = (JSON.parse(answer.text) as Claimed).work[0] as WorkItem;
    const [here, there] = [owner, other].map(({ url }) => {
      const connection = new HttpConnection({ address: url });
      onTestFinished(() => connection.close());
      return asking(connection, work);
    }) as [ReturnType<typeof asking>, ReturnType<typeof asking>];
    expect(await fixture.passing(there.run("r0"))).toMatchObject([200, { state: "begin" }]);
    expect(await fixture.passing(there.results("map/map"))).toMatchObject([200, { data: [] }]);
    await fixture.passing(here.status({ status: "done", run: "r0", state: 1 }));
    expect(await fixture.passing(there.run("r1"))).toMatchObject([200, { state: 1 }]);
    owner.kill();
    await fixture.passUntil(() => other.engine.isOwn(id));
    expect(await fixture.passing(there.run("r1"))).toMatchObject([200, { state: 1 }]);
  });
});
