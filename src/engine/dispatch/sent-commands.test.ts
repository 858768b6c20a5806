// Commands at a broker: what waits for a receipt leaves memory, and comes back for whatever happens to it.
import { describe, expect, test } from "vitest";
import { claimOf, placeOf } from "../../../test/fixtures/engine/attempt-reports.ts";
import { type Attempt, NodeFixture } from "../../../test/fixtures/engine/node-fixture.ts";
import { command } from "../../../test/fixtures/kernel/kernel-run-fixture.ts";

const QUEUE = { local: false, queued: true, fallback: true, capacity: 1_000_000 } as const;
const SMALL = { windowMax: 100, idleMax: 20, sentMax: 20, sweepMs: 10_000, timersMax: 50 };

function queueFixture(settings: object = {}): NodeFixture {
  const fixture = new NodeFixture({ ...SMALL, ...settings });
  join(fixture);
  return fixture;
}

function join(fixture: NodeFixture): void {
  fixture.join("broker", [], QUEUE);
  fixture.claim("broker", 1);
  fixture.settle();
}

/** The broker confirms these. */
function sent(fixture: NodeFixture, ...attempts: readonly Attempt[]): void {
  for (const { worker, grant, item } of attempts)
    fixture.input({
      kind: "worker-sent",
      worker,
      beats: [{ ...placeOf(grant), attempts: [claimOf(item)] }],
    });
  fixture.settle();
}

/** As many executions, each with a definition of its own, whose commands are all at the broker. */
function submit(fixture: NodeFixture, count: number, handler: object = {}): Attempt[] {
  for (let i = 0; i < count; i++) {
    const plan = fixture.plan([command("a", {}, handler), command("b", {}, handler)], `w${i}`);
    fixture.start(plan, `e${i}`);
    fixture.settle();
    sent(fixture, ...fixture.attempts("broker").slice(i));
  }
  return fixture.attempts("broker");
}

const RETRY = { attempts: 3, min: "100ms", backoff: "constant" };

describe("many commands that wait at a topic", () => {
  test("are not in memory; each receipt finds its own, and the next command goes out", () => {
    const fixture = queueFixture();
    const all = submit(fixture, 2_000);
    expect(fixture.node.residentCount).toBeLessThan(100);
    expect(fixture.node.overview().workers[0]?.held).toBe(fixture.node.openLeases);
    for (const i of [0, 777, 1_999]) {
      const report = fixture.receipt(all[i] as Attempt);
      fixture.settle();
      expect(fixture.verdicts(report)).toEqual([["accepted"]]);
      expect(fixture.inspect(`e${i}`).view.phases.map(({ name }) => name)).toEqual(["a", "b"]);
    }
    expect(fixture.attempts("broker")).toHaveLength(2_003);
    const again = fixture.receipt(all[777] as Attempt);
    fixture.settle();
    expect(fixture.verdicts(again)).toEqual([["gone"]]);
    expect(fixture.node.residentCount).toBeLessThan(100);
  });

  test("leave memory also if their events are published late", () => {
    const fixture = queueFixture({ outbox: true });
    submit(fixture, 200);
    // Events that are published later would bring them back.
    expect(fixture.node.residentCount).toBe(200);
    for (let i = 0; i < 200; i++)
      fixture.input({ kind: "published", execution: `e${i}`, seq: fixture.journal(`e${i}`).length });
    fixture.settle();
    expect(fixture.node.residentCount).toBeLessThan(100);
  });

  test("are not loaded when the node begins anew, cleanly or not; receipts of before count, and nothing is sent twice", () => {
    for (const clean of [true, false]) {
      const fixture = queueFixture({ suspectMs: 5_000 });
      const all = submit(fixture, 300);
      // For the last commands, the node knows only in memory that they were sent.
      fixture.restart({ clean });
      join(fixture);
      expect(fixture.node.residentCount).toBeLessThan(100);
      fixture.sleep(20_000);
      const sentAgain = fixture.attempts("broker").length;
      expect(sentAgain).toBeLessThan(50);
      const report = fixture.receipt(all[7] as Attempt, { payload: "7" });
      fixture.settle();
      expect(fixture.verdicts(report)).toEqual([["accepted"]]);
      expect(fixture.inspect("e7").view.phases.map(({ name }) => name)).toEqual(["a", "b"]);
      expect(fixture.inspect("e8").why).toContain("receipt");
    }
  });

  test("are shown as sent, also after they were looked at", () => {
    const fixture = queueFixture();
    submit(fixture, 100);
    const { commands } = fixture.inspect("e3");
    expect(commands?.map(({ procStatus }) => procStatus)).toEqual(["RUNNING", "PENDING"]);
    expect(fixture.inspect("e3").commands?.[0]?.procStatus).toBe("RUNNING");
    expect(fixture.attempts("broker")).toHaveLength(100);
  });

  test("that are given back are sent again as the same attempt, wherever they are", () => {
    const fixture = queueFixture();
    const all = submit(fixture, 100);
    fixture.release("broker", all[5] as Attempt);
    fixture.settle();
    const again = fixture.attempts("broker").slice(100);
    expect(again.map(({ grant, item }) => [grant.execution, item.attempt])).toEqual([["e5", 1]]);
    sent(fixture, ...again);
    // The first copy of the command may have been done all the same.
    const report = fixture.receipt(all[5] as Attempt);
    fixture.settle();
    expect(fixture.verdicts(report)).toEqual([["accepted"]]);
  });

  test("end when they are cancelled, with a broker and without one", () => {
    const fixture = queueFixture();
    submit(fixture, 100);
    fixture.control("cancel", "e5");
    fixture.settle();
    expect(fixture.of("withdraw")[0]).toMatchObject({ from: { execution: "e5" }, why: "cancelled" });
    fixture.restart({ clean: false });
    fixture.control("cancel", "e6");
    fixture.sleep(1_000);
    expect(fixture.status("e6")).toBe("cancelled");
  });

  test("that are paused stay at the broker, and their receipts count", () => {
    const fixture = queueFixture();
    const all = submit(fixture, 100);
    fixture.control("pause", "e5");
    fixture.settle();
    fixture.receipt(all[5] as Attempt);
    fixture.control("resume", "e5");
    fixture.settle();
    expect(fixture.inspect("e5").view.phases.at(-1)?.name).toBe("b");
  });

  test("are looked after when they have waited for long, also of a former process", () => {
    const fixture = queueFixture({ checkMs: 60_000 });
    submit(fixture, 100);
    fixture.restart({ clean: true });
    join(fixture);
    fixture.sleep(60_000);
    const checked = new Set(fixture.of("check-sent").map(({ at }) => at.attempt.execution));
    expect(checked.size).toBeGreaterThan(40);
    expect(fixture.of("check-sent")[0]).toMatchObject({ worker: "broker", at: { topic: "CMD_A" } });
    const before = fixture.of("check-sent").length;
    fixture.sleep(30_000);
    expect(fixture.of("check-sent").length - before).toBeLessThan(50);
  });
});

describe("a receipt that does not come in time", () => {
  test("is noticed when its time has come, in memory or not, and the command goes out once more", () => {
    const fixture = queueFixture();
    submit(fixture, 100, { timeout: "30s", retry: RETRY });
    fixture.sleep(29_999);
    expect(fixture.attempts("broker")).toHaveLength(100);
    fixture.sleep(1);
    expect(fixture.events("e0", "tasks.retrying")).toHaveLength(1);
    expect(fixture.events("e99", "tasks.retrying")).toHaveLength(1);
    fixture.sleep(1_000);
    const second = fixture.attempts("broker").slice(100);
    expect(second.map(({ item }) => item.attempt)).toEqual(Array.from({ length: 100 }, () => 2));
  });

  test("is the time since it was sent, whoever has the execution by then", () => {
    for (const clean of [true, false]) {
      const fixture = queueFixture();
      submit(fixture, 100, { timeout: "30s", retry: RETRY });
      fixture.sleep(20_000);
      fixture.restart({ clean });
      join(fixture);
      fixture.sleep(9_999);
      expect(fixture.events("e0", "tasks.retrying")).toHaveLength(0);
      fixture.sleep(1);
      expect(fixture.events("e0", "tasks.retrying")).toHaveLength(1);
    }
  });

  test("is not waited for in a second attempt by the time of the first", () => {
    const fixture = queueFixture();
    submit(fixture, 60, { timeout: "30s", retry: RETRY });
    fixture.sleep(30_000);
    fixture.sleep(1_000);
    sent(fixture, ...fixture.attempts("broker").slice(60));
    fixture.sleep(10_000);
    const id =
      Array.from({ length: 60 }, (_, i) => `e${i}`).find((one) => !fixture.node.isResident(one)) ?? "";
    fixture.restart({ clean: true });
    join(fixture);
    fixture.sleep(18_000);
    expect(fixture.events(id, "tasks.retrying")).toHaveLength(1);
    const late = fixture.attempts("broker").length;
    fixture.sleep(3_000);
    expect(fixture.events(id, "tasks.retrying")).toHaveLength(2);
    expect(fixture.attempts("broker").length).toBeGreaterThan(late);
  });
});

test("few commands cost no commit of their own", () => {
  const fixture = queueFixture();
  const [first] = submit(fixture, 1);
  expect(fixture.of("commit")).toHaveLength(1);
  fixture.receipt(first as Attempt);
  fixture.settle();
  expect(fixture.of("commit")).toHaveLength(2);
});
