// What workers say to a node about executions of others reaches their owners, in order, and the verdicts come back.
import { describe, expect, test } from "vitest";
import type { Grant, Report } from "../../../src/protocol/work.ts";
import { type PeerNode, PeerWorld, planOf, start } from "../../fixtures/cluster/peer-world-fixture.ts";

const CODED = planOf([{ name: "a", handlers: { h: { use: "code" } } }]);

async function two() {
  const world = new PeerWorld();
  const [a, b] = [await world.node("a"), await world.node("b")];
  await a.take(0, 1, 2);
  await b.take(3, 4, 5);
  await a.renew();
  return { world, a, b };
}

/** A worker that is registered at a node, and what it was given. */
function workAt(node: PeerNode): { grants: Grant[]; stopped: string[] } {
  const grants: Grant[] = [];
  const stopped: string[] = [];
  node.cluster.join(
    "w1",
    {
      accept: (grant) => void grants.push(grant),
      cancel: (beats, why) => void stopped.push(...beats.map(({ execution }) => `${execution} ${why}`)),
    },
    { serves: [{ use: "code" }], capacity: 10, local: false },
  );
  node.cluster.claim("w1", 10);
  return { grants, stopped };
}

function receipt(grant: Grant): Report {
  const { phase, visit, handler, execution, round, epoch } = grant;
  const [item] = grant.items;
  const { number: task, attempt, claim } = item as Grant["items"][number];
  const outcome = { status: "done", payload: '"ok"' } as const;
  return {
    kind: "receipts",
    ...{ phase, visit, handler, execution, round, epoch },
    receipts: [{ task, attempt, claim, ms: 1, outcome }],
  };
}

describe("reports", () => {
  test("on executions of several nodes: verdicts come in their order", async () => {
    const { world, a, b } = await two();
    const { grants } = workAt(a);
    const theirs = workAt(b).grants;
    const [mine, other] = [world.idIn(0), world.idIn(3)];
    await start(a, mine, { plan: CODED });
    await start(a, other, { plan: CODED });
    await world.until(() => grants.length === 1 && theirs.length === 1);
    const [own, foreign] = [receipt(grants[0] as Grant), receipt(theirs[0] as Grant)];
    const gone = { ...foreign, execution: world.idIn(4) };
    expect(await a.cluster.report("w1", [foreign, own, gone])).toEqual([
      ["accepted"],
      ["accepted"],
      ["stale"],
    ]);
    expect(await a.cluster.report("w1", [own, foreign])).toEqual([["gone"], ["gone"]]);
    for (const id of [mine, other])
      expect(await a.cluster.inspect(id)).toMatchObject({ view: { status: "done" } });
    expect(world.requests.filter((request) => request === "b report 200")).toHaveLength(2);
  });

  test("on what has just moved find the next owner", async () => {
    const { world, a, b } = await two();
    const { grants } = workAt(a);
    const id = world.idIn(0);
    await start(a, id, { plan: CODED });
    await world.until(() => grants.length === 1);
    await a.release(0);
    const reported = a.cluster.report("w1", [receipt(grants[0] as Grant)]);
    await b.take(0);
    expect(await world.passing(reported)).toEqual([["accepted"]]);
    expect(await a.cluster.inspect(id)).toMatchObject({ view: { status: "done" } });
  });

  test("that reach nobody are said again by whoever said them", async () => {
    const { world, a, b } = await two();
    const { grants } = workAt(b);
    const [id, mine] = [world.idIn(3), world.idIn(0)];
    await start(b, id, { plan: CODED });
    await world.until(() => grants.length === 1);
    const report = receipt(grants[0] as Grant);
    b.kill();
    const before = world.clock.now();
    const verdicts = await world.passing(a.cluster.report("w1", [report, { ...report, execution: mine }]));
    expect(verdicts).toEqual([["elsewhere"], ["stale"]]);
    expect(world.clock.now() - before).toBeLessThan(4_000);
    await world.clock.advance(10_000);
    await a.take(3);
    expect(await world.passing(a.cluster.report("w1", [report]))).toEqual([["accepted"]]);
  });

  test("on one execution do not overtake each other", async () => {
    const { world, a, b } = await two();
    const { grants } = workAt(b);
    const id = world.idIn(3);
    await start(a, id, { plan: CODED });
    await world.until(() => grants.length === 1);
    const report = receipt(grants[0] as Grant);
    b.mood = "hangs";
    const first = a.cluster.report("w1", [report]);
    const second = a.cluster.report("w1", [report]);
    await world.until(() => b.hung === 1);
    for (let i = 0; i < 100; i++) await world.clock.settle();
    // The second waits for the first, which nobody has answered.
    expect(b.hung).toBe(1);
    b.mood = "answers";
    b.cutOff();
    expect(await world.passing(first)).toEqual([["accepted"]]);
    expect(await world.passing(second)).toEqual([["gone"]]);
  });
});

test("beats reach the owners of their executions", async () => {
  const { world, a, b } = await two();
  const [atA, atB] = [workAt(a), workAt(b)];
  const [mine, other] = [world.idIn(0), world.idIn(3)];
  await start(a, mine, { plan: CODED });
  await start(b, other, { plan: CODED });
  await world.until(() => atA.grants.length === 1 && atB.grants.length === 1);
  const beats = [...atA.grants, ...atB.grants].map((grant) => {
    const { phase, visit, handler, execution, round, epoch, items } = grant;
    const attempts = items.map(({ number: task, attempt, claim }) => ({ task, attempt, claim }));
    return { phase, visit, handler, execution, round, epoch, attempts };
  });
  const ofNobody = { ...(beats[0] as (typeof beats)[number]), execution: world.idIn(9) };
  a.cluster.beat("w1", [...beats, ofNobody]);
  await world.until(() => world.requests.includes("b beat 200"));
  const running = (node: PeerNode) =>
    node.engine.openAttempts({ worker: null, max: 10 }).map(({ execution, status }) => [execution, status]);
  expect(running(a)).toEqual([[mine, "running"]]);
  expect(running(b)).toEqual([[other, "running"]]);
});
