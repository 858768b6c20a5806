// What a node says about attempts of others: a word for each, and nothing of them is taken. Sessions over one engine,
// which is told what it has; the others are the test.
import { beforeEach, describe, expect, test } from "vitest";
import type { EnginePort } from "../../src/engine/engine-port.ts";
import type { Claimed, WorkItem } from "../../src/protocol/worker-wire.ts";
import { WorkerSessions } from "../../src/server/worker-protocol/worker-sessions.ts";
import { isRejection, unwrap } from "../../src/std/rejection.ts";
import {
  DONE,
  OpenClaim,
  type Said,
  SessionFixture,
  STARTED,
  tasksPhase,
} from "../fixtures/workers/session-fixture.ts";

let fixture: SessionFixture;
let sessions: WorkerSessions;
/** Executions of other nodes, and those that move there while something waits to be committed. */
let elsewhere: Set<string>;
let moving: Set<string>;
/** What this node has of it was had by others meanwhile. */
let terms: Map<string, number>;
let nodes: readonly string[];

beforeEach(async () => {
  fixture = await SessionFixture.open();
  [elsewhere, moving, terms] = [new Set(), new Set(), new Map()];
  nodes = ["http://a", "http://b"];
  const { engine } = fixture;
  const changed: Partial<EnginePort> = {
    epochOf: (execution) =>
      elsewhere.has(execution) ? null : (terms.get(execution) ?? engine.epochOf(execution)),
    report: async (worker, reports) => {
      const verdicts = await Promise.all(
        reports.map(async (report) =>
          moving.has(report.execution)
            ? ["elsewhere" as const]
            : ((await engine.report(worker, [report]))[0] ?? []),
        ),
      );
      return verdicts;
    },
  };
  const port = new Proxy(engine, {
    get: (_, name) => {
      if (Object.hasOwn(changed, name)) return changed[name as keyof EnginePort];
      const value = Reflect.get(engine, name) as unknown;
      return typeof value === "function" ? value.bind(engine) : value;
    },
  });
  const { store, clock, random } = fixture;
  sessions = new WorkerSessions({ engine: port, store, clock, random, nodes: () => nodes });
  fixture.sessions = sessions;
});

/** One attempt of each of two executions. */
async function two(): Promise<readonly [WorkItem, WorkItem]> {
  fixture.join("w1", ["w.a"]);
  for (const id of ["e1", "e2"]) await fixture.start(id, [tasksPhase("a", [1])]);
  const { work } = await fixture.claim("w1");
  return [
    work.find(({ execution }) => execution === "e1"),
    work.find(({ execution }) => execution === "e2"),
  ] as [WorkItem, WorkItem];
}

const verdictsOf = async (...events: readonly Said[]) => unwrap(await fixture.send("w1", events)).verdicts;

describe("events of an attempt that another node has", () => {
  test("are not taken; those of others in the same request are", async () => {
    const [one, other] = await two();
    elsewhere.add("e2");
    const answer = unwrap(
      await fixture.send("w1", [
        [other, 1, DONE],
        [one, 1, DONE],
      ]),
    );
    expect(answer.verdicts).toEqual({ [one.attempt]: "accepted", [other.attempt]: "not_owner" });
    expect(answer.stored).toEqual({ [one.attempt]: 1 });
    expect((await fixture.status("e1")).status).toBe("done");
    expect((await fixture.status("e2")).status).toBe("running");
  });

  test("are taken once this node has it, with numbers that go on where the others were", async () => {
    const [, other] = await two();
    await verdictsOf([other, 1, STARTED]);
    elsewhere.add("e2");
    expect(await verdictsOf([other, 2, { kind: "log", text: "x" }])).toEqual({
      [other.attempt]: "not_owner",
    });
    elsewhere.delete("e2");
    // Up to 4 the node in between has stored.
    expect(unwrap(await fixture.send("w1", [[other, 5, DONE]]))).toEqual({
      stored: { [other.attempt]: 5 },
      verdicts: { [other.attempt]: "accepted" },
    });
  });

  test("that this node had in an earlier term go on too, though it was never asked meanwhile", async () => {
    const [, other] = await two();
    await verdictsOf([other, 1, STARTED]);
    terms.set("e2", (fixture.engine.epochOf("e2") ?? 0) + 2);
    expect(unwrap(await fixture.send("w1", [[other, 5, DONE]])).stored).toEqual({ [other.attempt]: 5 });
  });

  test("and whose partition is lost while they wait are not acknowledged, and may come again", async () => {
    const [one, other] = await two();
    moving.add("e2");
    const said: Said[] = [
      [other, 1, STARTED],
      [one, 1, STARTED],
      [other, 2, DONE],
    ];
    const answer = unwrap(await fixture.send("w1", said));
    expect(answer.verdicts).toEqual({ [one.attempt]: "accepted", [other.attempt]: "not_owner" });
    expect(answer.stored).toEqual({ [one.attempt]: 1, [other.attempt]: 0 });
    moving.clear();
    expect(
      unwrap(
        await fixture.send("w1", [
          [other, 1, STARTED],
          [other, 2, DONE],
        ]),
      ),
    ).toEqual({
      stored: { [other.attempt]: 2 },
      verdicts: { [other.attempt]: "accepted" },
    });
    expect((await fixture.status("e2")).status).toBe("done");
  });

  test("do not open a gap for those that follow in another request", async () => {
    const [, other] = await two();
    moving.add("e2");
    const first = sessions.events("w1", bodyOf([other, 1, STARTED]));
    moving.clear();
    const second = sessions.events("w1", bodyOf([other, 2, DONE]));
    await fixture.clock.settle();
    expect(unwrap(await first).stored).toEqual({ [other.attempt]: 0 });
    expect(unwrap(await second).stored[other.attempt] ?? 0).toBe(0);
  });

  test("are refused where they come one by one", async () => {
    const [, other] = await two();
    const record = unwrap(await sessions.attempt(other.attempt, other.token));
    moving.add("e2");
    const answer = await sessions.attemptEvents(record, [{ kind: "log", text: "x" }]);
    expect(unwrap(answer).verdicts).toEqual({ [other.attempt]: "not_owner" });
    elsewhere.add("e2");
    expect(await sessions.attempt(other.attempt, other.token)).toMatchObject({ code: "not_owner" });
  });
});

test("beats name each attempt that another node has", async () => {
  const [one, other] = await two();
  elsewhere.add("e2");
  const strange = { ...one, attempt: `${one.attempt}9` };
  expect(await fixture.beat("w1", one, other, strange)).toEqual({
    [one.attempt]: "continue",
    [other.attempt]: "not_owner",
    [strange.attempt]: "lost",
  });
});

describe("the nodes of the cluster", () => {
  test("are told at registration and with every claim", async () => {
    const registered = sessions.register({ name: "n", worker: "w2", handlers: [], capacity: 1 }, null);
    expect(registered).toMatchObject({ nodes });
    expect((await fixture.claim("w2")).nodes).toEqual(nodes);
  });

  test("are told at once when they change, to whoever waits for work", async () => {
    fixture.join("w2", ["w.a"]);
    const open = new OpenClaim(sessions, "w2", { max: 1, waitMs: 60_000 });
    await fixture.clock.settle();
    sessions.nodesChanged();
    await fixture.clock.settle();
    expect(open.isAnswered).toBe(false);
    nodes = ["http://a", "http://c"];
    sessions.nodesChanged();
    await fixture.clock.settle();
    const claimed = await open.answer;
    expect(isRejection(claimed) ? claimed : (claimed as Claimed).nodes).toEqual(nodes);
  });
});

function bodyOf([{ attempt, token }, n, body]: Said): unknown {
  return { tokens: { [attempt]: token }, events: [{ attempt, n, ...body }] };
}
