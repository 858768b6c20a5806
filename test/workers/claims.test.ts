// Claims and leases of remote workers: who gets what, and what becomes of work whose worker does not begin.
import { expect, test } from "vitest";
import type { Claimed, EventsAnswer, WorkItem } from "../../src/protocol/worker-wire.ts";
import { isRejection, unwrap } from "../../src/std/rejection.ts";
import { type ReadItem, readWork } from "../../src/worker/http/read-work.ts";
import { DONE, FAILED, SessionFixture, STARTED, tasksPhase } from "../fixtures/workers/session-fixture.ts";

const numbers = ({ work }: Claimed) => work.map(({ number }) => number);
const first = ({ work }: Claimed) => work[0] as WorkItem;

test("C1 two workers claim with one task available: exactly one gets it, the other an empty list", async () => {
  const fixture = await SessionFixture.open();
  fixture.join("one", ["w.a"]);
  fixture.join("two", ["w.a"]);
  await fixture.start("e1", [tasksPhase("a", ["x"])]);
  const [a, b] = [fixture.open("one", 5, 0), fixture.open("two", 5, 0)];
  await fixture.clock.settle();
  const got = [await a.answer, await b.answer] as Claimed[];
  expect(new Set(got.map((claimed) => claimed.work.length))).toEqual(new Set([0, 1]));
});

test("a worker that registers again while its claim is open gets the work of that claim", async () => {
  const fixture = await SessionFixture.open();
  fixture.join("one", ["w.a"]);
  const claim = fixture.open("one", 5, 20_000);
  await fixture.clock.settle();
  fixture.join("one", ["w.a"]);
  await fixture.start("e1", [tasksPhase("a", ["x"])]);
  await fixture.clock.settle();
  expect(numbers((await claim.answer) as Claimed)).toEqual([0]);
});

test("an item says everything that is needed to do it, and inputs come once per execution", async () => {
  const fixture = await SessionFixture.open();
  fixture.join("one", ["w.a"]);
  await fixture.start("e1", [tasksPhase("a", [{ n: 1 }, { n: 2 }], { timeout: 5_000, heartbeat: 9_000 })], {
    "input é": [null],
  });
  const claimed = await fixture.claim("one");
  expect(claimed.inputs).toEqual({ e1: { "input é": [null] } });
  expect(claimed.work).toHaveLength(2);
  expect(first(claimed)).toEqual({
    attempt: "e1.a.1.a.1.0.1.0.1",
    token: expect.stringMatching(/^[A-Za-z0-9_-]{43}$/) as string,
    leaseUntil: fixture.clock.now() + 30_000,
    do: "process",
    execution: "e1",
    workflow: "w",
    project: "default",
    phase: "a",
    visit: 1,
    handler: "a",
    use: "w.a",
    version: null,
    number: 0,
    task: { n: 1 },
    idempotencyKey: "e1/a/1/a/0",
    n: 1,
    timeoutMs: 5_000,
    heartbeatMs: 9_000,
    batch: 1,
  });
});

test("a brief answer has tasks without a history in batches, and what has one in `work`", async () => {
  const fixture = await SessionFixture.open();
  fixture.join("one", ["w.a", "w.b"]);
  const retry = { attempts: 2, min: 1, max: 1 };
  await fixture.start("e1", [tasksPhase("a", [{ n: 1 }, "é"], { retry })]);
  const [work] = (await fixture.claim("one", 1)).work as [WorkItem];
  await fixture.tell("one", [work, 1, { kind: "step", name: "s", result: 7 }], [work, 2, FAILED]);
  await fixture.clock.advance(1_000);
  const asked = { max: 10, waitMs: 0, isBrief: true };
  const claim = unwrap(fixture.sessions.claim("one", asked, new AbortController().signal));
  await fixture.clock.settle();
  const claimed = JSON.parse((await claim)?.text ?? "") as Claimed;
  expect(claimed.work.map(({ number, n, steps }) => ({ number, n, steps }))).toEqual([
    { number: 0, n: 2, steps: [{ name: "s", result: 7 }] },
  ]);
  const [batch] = claimed.batches ?? [];
  expect(claimed.batches).toHaveLength(1);
  expect(batch).toMatchObject({ do: "process", execution: "e1", phase: "a", use: "w.a", round: 1, epoch: 1 });
  expect(batch?.tasks.map(([number, n, , , task]) => [number, n, task])).toEqual([[1, 1, "é"]]);
  // The worker that reads the batch knows the attempt by the id and the token that the server knows.
  const { items, grants } = readWork(claimed, () => 0);
  expect(grants.map(({ items: list }) => list.map(({ task }) => task))).toEqual([['{"n":1}'], ['"é"']]);
  const [again, fresh] = items as [ReadItem, ReadItem];
  const events = [again, fresh].map(({ id, token }) => ({ attempt: id, token, n: 1, ...DONE }));
  const answer = fixture.sessions.events("one", { tokens: {}, events }, true);
  await fixture.clock.settle();
  expect(await answer).toEqual({ stored: {}, verdicts: {}, rest: "accepted" });
  expect((await fixture.status("e1")).status).toBe("done");
});

test("a claim that comes with events gets the tasks that follow them, and waits for no others", async () => {
  const fixture = await SessionFixture.open();
  fixture.join("one", ["w.a", "w.b"]);
  await fixture.start("e1", [tasksPhase("a", ["x"]), tasksPhase("b", ["y"])]);
  const { signal } = new AbortController();
  const tell = async ({ attempt, token }: Pick<WorkItem, "attempt" | "token">, id: string) => {
    const body = { tokens: {}, events: [{ attempt, token, n: 1, ...DONE }] };
    const given = fixture.sessions.eventsWithClaim("one", body, {
      asked: { max: 5, isBrief: true, id },
      signal,
    });
    await fixture.clock.settle();
    const { text, claimed } = unwrap(await given);
    return { answer: JSON.parse(text) as EventsAnswer, claimed };
  };
  const work = first(await fixture.claim("one"));
  const { answer, claimed } = await tell(work, "c1");
  expect(answer).toMatchObject({ stored: {}, verdicts: {}, rest: "accepted" });
  expect(answer.claimed?.batches?.map(({ phase, tasks }) => [phase, tasks.length])).toEqual([["b", 1]]);
  // The answer is lost: the claim is repeated under its id, and its work is given out again.
  claimed?.ended(true);
  const again = first(await fixture.claim("one", 5, "c1"));
  expect([again.phase, again.number]).toEqual(["b", 0]);
  const last = await tell(again, "c2");
  expect(last.answer.claimed).toEqual({ work: [], inputs: {}, phases: {}, cancel: [], lost: [] });
  expect((await fixture.status("e1")).status).toBe("done");
});

test("the work of a claim whose events are refused is handed back", async () => {
  const fixture = await SessionFixture.open();
  fixture.join("one", ["w.a"]);
  await fixture.start("e1", [tasksPhase("a", ["x", "y"])]);
  const work = first(await fixture.claim("one", 1));
  const body = { tokens: {}, events: [{ attempt: work.attempt, token: "wrong", n: 1, ...DONE }] };
  const { signal } = new AbortController();
  const given = fixture.sessions.eventsWithClaim("one", body, { asked: { max: 5 }, signal });
  await fixture.clock.settle();
  expect(isRejection(await given)).toBe(true);
  await fixture.clock.settle();
  expect(numbers(await fixture.claim("one"))).toEqual([1]);
});

test("C2 a claim without work waits, and is answered the moment there is some", async () => {
  const fixture = await SessionFixture.open();
  fixture.join("one", ["w.a"]);
  const claim = fixture.open("one", 5, 60_000);
  await fixture.clock.advance(59_000);
  expect(claim.isAnswered).toBe(false);
  await fixture.start("e1", [tasksPhase("a", ["x", "y"])]);
  expect(claim.isAnswered).toBe(true);
  expect(numbers((await claim.answer) as Claimed)).toEqual([0, 1]);
});

test("C2 a claim that waits in vain is answered with nothing when its time is over", async () => {
  const fixture = await SessionFixture.open();
  fixture.join("one", ["w.a"]);
  const claim = fixture.open("one", 5, 60_000);
  await fixture.clock.advance(60_000);
  expect(await claim.answer).toEqual({ work: [], inputs: {}, phases: {}, cancel: [], lost: [] });
});

test("C4 claimed, and the worker dies before it starts: given out again after the lease, no attempt burnt", async () => {
  const fixture = await SessionFixture.open();
  fixture.join("one", ["w.a"]);
  fixture.join("two", ["w.a"]);
  await fixture.start("e1", [tasksPhase("a", ["x"], { retry: { attempts: 1, crashes: 1 } })]);
  expect(numbers(await fixture.claim("one"))).toEqual([0]);
  const other = fixture.open("two", 5, 60_000);
  await fixture.clock.advance(29_000);
  expect(other.isAnswered).toBe(false);
  await fixture.clock.advance(2_000);
  const work = first((await other.answer) as Claimed);
  expect([work.number, work.n]).toEqual([0, 1]);
  await fixture.tell("two", [work, 1, DONE]);
  expect((await fixture.status("e1")).status).toBe("done");
  expect(await fixture.events("e1", "tasks.lost")).toEqual([]);
});

test("C15 a worker that serves only `fast` never gets other work", async () => {
  const fixture = await SessionFixture.open();
  fixture.join("one", ["w.fast"]);
  await fixture.start("e1", [
    { name: "p", handlers: { slow: { use: "w.slow", tasks: [1, 2] }, fast: { use: "w.fast", tasks: [3] } } },
  ]);
  const claimed = await fixture.claim("one", 100);
  expect(claimed.work.map(({ use, task }) => [use, task])).toEqual([["w.fast", 3]]);
  expect(numbers(await fixture.claim("one", 100))).toEqual([]);
});

test("a worker gets no more than it asks for, and no more than its capacity", async () => {
  const fixture = await SessionFixture.open();
  fixture.join("one", ["w.a"], 3);
  await fixture.start("e1", [tasksPhase("a", [0, 1, 2, 3, 4, 5])]);
  expect(numbers(await fixture.claim("one", 2))).toEqual([0, 1]);
  expect(numbers(await fixture.claim("one", 100))).toEqual([2]);
  expect(numbers(await fixture.claim("one", 100))).toEqual([]);
});

test("a claim of nothing gets no work, however much there is", async () => {
  const fixture = await SessionFixture.open();
  fixture.join("one", ["w.a"]);
  await fixture.start("e1", [tasksPhase("a", [1])]);
  expect(numbers(await fixture.claim("one", 0))).toEqual([]);
});

test("a second claim supersedes the first, which answers empty; the work goes to the second", async () => {
  const fixture = await SessionFixture.open();
  fixture.join("one", ["w.a"]);
  const before = fixture.open("one", 5, 60_000);
  await fixture.clock.settle();
  const after = fixture.open("one", 5, 60_000);
  await fixture.clock.settle();
  expect(numbers((await before.answer) as Claimed)).toEqual([]);
  await fixture.start("e1", [tasksPhase("a", ["x"])]);
  expect(numbers((await after.answer) as Claimed)).toEqual([0]);
});

test("a client that has gone while it waited gets nothing: the next one does", async () => {
  const fixture = await SessionFixture.open();
  fixture.join("one", ["w.a"]);
  fixture.join("two", ["w.a"]);
  const claim = fixture.open("one", 5, 60_000);
  await fixture.clock.settle();
  claim.cut();
  expect(await claim.answer).toBeNull();
  await fixture.start("e1", [tasksPhase("a", ["x"])]);
  expect(numbers(await fixture.claim("two"))).toEqual([0]);
});

test("work whose answer could not be written is handed back at once, and nothing is burnt", async () => {
  const fixture = await SessionFixture.open();
  fixture.join("one", ["w.a", "w.list"]);
  fixture.join("two", ["w.a", "w.list"]);
  await fixture.start("e1", [
    {
      name: "a",
      handlers: { a: { use: "w.a", tasks: [1, 2] }, b: { use: "w.a", enumerate: { use: "w.list" } } },
    },
  ]);
  const claim = fixture.open("one", 5, 0);
  await fixture.clock.settle();
  expect(((await claim.answer) as Claimed).work).toHaveLength(3);
  claim.handBack();
  await fixture.clock.settle();
  const again = await fixture.claim("two");
  expect(new Set(again.work.map((work) => `${work.do} ${work.number}`))).toEqual(
    new Set(["enumerate -1", "process 0", "process 1"]),
  );
  const retried = await fixture.events("e1", "tasks.retrying");
  expect(retried.flatMap(({ reasons }) => reasons)).toEqual(["released", "released"]);
});

test("a claim that is repeated under its id gets the work of its lost answer again at once, and nothing is burnt", async () => {
  const fixture = await SessionFixture.open();
  fixture.join("one", ["w.a"]);
  await fixture.start("e1", [tasksPhase("a", [1, 2, 3])]);
  expect(numbers(await fixture.claim("one", 2, "c1"))).toEqual([0, 1]);
  const again = await fixture.claim("one", 5, "c1");
  expect(numbers(again)).toEqual([0, 1, 2]);
  // A claim with another id says nothing about the answers before it.
  expect(numbers(await fixture.claim("one", 5, "c2"))).toEqual([]);
  expect(fixture.engine.openLeases).toBe(3);
  // An attempt whose events have arrived is not taken away.
  await fixture.tell("one", [first(again), 1, STARTED]);
  expect(new Set(numbers(await fixture.claim("one", 5, "c1")))).toEqual(new Set([1, 2]));
  const retried = await fixture.events("e1", "tasks.retrying");
  expect(new Set(retried.flatMap(({ reasons }) => reasons))).toEqual(new Set(["released"]));
});

test("a node that gives out nothing more takes back what is being written, what is read for, and what still comes", async () => {
  const fixture = await SessionFixture.open();
  fixture.join("one", ["w.a", "w.b"], 2);
  await fixture.start("e1", [tasksPhase("a", [1, 2])]);
  const claim = fixture.open("one", 1, 0);
  await fixture.clock.settle();
  expect(((await claim.answer) as Claimed).work).toHaveLength(1);
  const quiet = fixture.sessions.quiesce();
  await fixture.clock.advance(200);
  await quiet;
  expect(fixture.engine.openLeases).toBe(0);
  // Too late: it has been handed back.
  claim.handBack();
  expect((await fixture.claim("one")).work).toEqual([]);
  fixture.join("two", ["w.a"]);
  expect(numbers(await fixture.claim("two"))).toEqual([0, 1]);
});

test("a worker that has less room than when it asked gives back what it cannot take", async () => {
  const fixture = await SessionFixture.open({ pageCacheChars: 33_554_432 });
  fixture.join("one", ["w.a"], 200);
  fixture.join("two", ["w.a"], 200);
  const tasks = Array.from({ length: 100 }, (_, i) => `${i}${"x".repeat(60_000)}`);
  await fixture.start("e1", [tasksPhase("a", tasks)]);
  expect((await fixture.claim("one", 200)).work).toHaveLength(70);
  expect((await fixture.claim("one", 0)).work).toEqual([]);
  expect((await fixture.claim("two", 200)).work).toHaveLength(30);
});

test("an answer holds only so much: the rest comes with the next claim, at once", async () => {
  const fixture = await SessionFixture.open({ pageCacheChars: 33_554_432 });
  fixture.join("one", ["w.a"], 200);
  const tasks = Array.from({ length: 100 }, (_, i) => `${i}${"x".repeat(60_000)}`);
  await fixture.start("e1", [tasksPhase("a", tasks)]);
  const counts: number[] = [];
  while (counts.reduce((sum, n) => sum + n, 0) < 100)
    counts.push((await fixture.claim("one", 200)).work.length);
  expect(counts).toEqual([70, 30]);
});

test("a worker that is told to drain hears it over the claim that waits, and gets nothing new", async () => {
  const fixture = await SessionFixture.open();
  fixture.join("one", ["w.a"]);
  const claim = fixture.open("one", 5, 60_000);
  await fixture.clock.settle();
  expect(fixture.sessions.drain("one")).toBeNull();
  expect(await claim.answer).toMatchObject({ work: [], drain: true });
  await fixture.start("e1", [tasksPhase("a", ["x"])]);
  expect(await fixture.claim("one")).toMatchObject({ work: [], drain: true });
  expect(fixture.sessions.drain("nobody")).toMatchObject({ code: "not_found" });
});

/** Which workers are listed, and what is said about an execution of theirs. */
async function seen(fixture: SessionFixture): Promise<[ids: string[], why: string]> {
  const { why } = unwrap(await fixture.engine.inspect("e1"));
  return [fixture.sessions.list().map(({ id }) => id), why];
}

test("a worker that was killed while its claim waited is gone within a heartbeat, and why says so", async () => {
  const fixture = await SessionFixture.open();
  fixture.join("one", ["w.a"]);
  await fixture.clock.advance(20_000);
  const claim = fixture.open("one", 1, 60_000);
  await fixture.clock.advance(15_000);
  claim.cut();
  await fixture.clock.advance(2_000);
  await fixture.start("e1", [tasksPhase("a", ["x"])]);
  expect(await seen(fixture)).toEqual([["one"], '"a" is about to give out 1 task.']);
  // A heartbeat after the claim came.
  await fixture.clock.advance(13_000);
  expect(await seen(fixture)).toEqual([
    [],
    '"a" waits for a worker: none serves "w.a" now; the last one left 0 ms ago.',
  ]);
  expect(fixture.engine.overview().workers).toEqual([]);
  // It was only cut off: it is back as it was, and gets the task.
  expect((await fixture.claim("one")).work).toHaveLength(1);
  expect((await seen(fixture))[0]).toEqual(["one"]);
});

test("a worker that says nothing more is gone after one heartbeat; each request shows that it is there", async () => {
  const fixture = await SessionFixture.open();
  fixture.join("one", ["w.a"]);
  await fixture.start("e1", [tasksPhase("b", ["x"])]);
  for (let i = 0; i < 3; i++) {
    await fixture.clock.advance(29_000);
    expect((await seen(fixture))[0]).toEqual(["one"]);
    await fixture.beat("one");
  }
  await fixture.clock.advance(29_999);
  expect((await seen(fixture))[0]).toEqual(["one"]);
  await fixture.clock.advance(1);
  expect((await seen(fixture))[0]).toEqual([]);
  await fixture.beat("one");
  expect((await seen(fixture))[0]).toEqual(["one"]);
});

test("an idle worker is listed all the time, between two claims too, however long they wait", async () => {
  const fixture = await SessionFixture.open();
  fixture.join("one", ["w.a"]);
  await fixture.start("e1", [tasksPhase("b", ["x"])]);
  for (const waitMs of [5_000, 29_000, 60_000]) {
    const claim = fixture.open("one", 1, waitMs);
    await fixture.clock.advance(waitMs);
    expect(claim.isAnswered).toBe(true);
    // A slow network.
    await fixture.clock.advance(9_000);
    expect((await seen(fixture))[0]).toEqual(["one"]);
  }
});

test("a session ends after 90 s of silence, but never while its claim waits", async () => {
  const fixture = await SessionFixture.open();
  fixture.join("silent", ["w.a"]);
  fixture.join("waiting", ["w.a"]);
  for (let i = 0; i < 3; i++) {
    const claim = fixture.open("waiting", 1, 60_000);
    await fixture.clock.advance(60_000);
    await claim.answer;
  }
  expect(fixture.sessions.list().map(({ id }) => id)).toEqual(["waiting"]);
  expect(fixture.sessions.heartbeat("silent", {})).toMatchObject({ code: "not_found" });
});

test("a worker that says goodbye is not served any more; what it has can still be told", async () => {
  const fixture = await SessionFixture.open();
  fixture.join("one", ["w.a"]);
  await fixture.start("e1", [tasksPhase("a", ["x"])]);
  const work = first(await fixture.claim("one"));
  await fixture.tell("one", [work, 1, STARTED]);
  expect(fixture.sessions.leave("one")).toBeNull();
  expect(fixture.sessions.list()).toEqual([]);
  fixture.join("one", ["w.a"]);
  expect(await fixture.tell("one", [work, 2, DONE])).toEqual({
    stored: { [work.attempt]: 2 },
    verdicts: { [work.attempt]: "accepted" },
  });
});

test("a registration that says enumerates gets enumerations, and never the input of an old definition as a task", async () => {
  const fixture = await SessionFixture.open();
  const register = (enumerates: boolean) =>
    unwrap(
      fixture.sessions.register(
        { name: "test", worker: "one", handlers: [{ use: "w.a", enumerates }], capacity: 10 },
        "127.0.0.1",
      ),
    );
  register(true);
  const phases = [{ name: "a", handlers: { a: { use: "w.a" } } }];
  await fixture.start("old", { name: "old", phases });
  await fixture.start("new", { rondo: 2, name: "new", phases });
  expect((await fixture.claim("one")).work.map((work) => [work.execution, work.do])).toEqual([
    ["new", "enumerate"],
  ]);
  const why = unwrap(await fixture.engine.inspect("old")).why;
  expect(why).toContain('the worker one enumerates "w.a"');
  expect(why).toContain('"rondo": 2');
  register(false);
  expect((await fixture.claim("one")).work.map((work) => [work.execution, work.do])).toEqual([
    ["old", "process"],
  ]);
});
