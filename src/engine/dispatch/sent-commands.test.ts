// Commands at a broker: what waits for a receipt leaves memory, and comes back for whatever happens to it.
import { describe, expect, test } from "vitest";
import { claimOf, placeOf } from "../../../test/fixtures/engine/attempt-reports.ts";
import { type Attempt, NodeFixture } from "../../../test/fixtures/engine/node-fixture.ts";
import { command } from "../../../test/fixtures/kernel/kernel-run-fixture.ts";

const QUEUE = { local: false, queued: true, fallback: true, capacity: 1_000_000 } as const;
const SMALL = { windowMax: 100, idleMax: 20, sentMax: 20, sweepMs: 10_000, timersMax: 50 };

function queueFixture(settings: object = {}): NodeFixture {
  const bench = new NodeFixture({ ...SMALL, ...settings });
  join(bench);
  return bench;
}

function join(bench: NodeFixture): void {
  bench.join("broker", [], QUEUE);
  bench.claim("broker", 1);
  bench.settle();
}

/** The broker confirms these. */
function sent(bench: NodeFixture, ...attempts: readonly Attempt[]): void {
  for (const { worker, grant, item } of attempts)
    bench.input({
      kind: "worker-sent",
      worker,
      beats: [{ ...placeOf(grant), attempts: [claimOf(item)] }],
    });
  bench.settle();
}

/** As many executions, each with a definition of its own, whose commands are all at the broker. */
function submit(bench: NodeFixture, count: number, handler: object = {}): Attempt[] {
  for (let i = 0; i < count; i++) {
    const plan = bench.plan([command("a", {}, handler), command("b", {}, handler)], `w${i}`);
    bench.start(plan, `e${i}`);
    bench.settle();
    sent(bench, ...bench.attempts("broker").slice(i));
  }
  return bench.attempts("broker");
}

const RETRY = { attempts: 3, min: "100ms", backoff: "constant" };

describe("many commands that wait at a topic", () => {
  test("are not in memory; each receipt finds its own, and the next command goes out", () => {
    const bench = queueFixture();
    const all = submit(bench, 2_000);
    expect(bench.node.residentCount).toBeLessThan(100);
    expect(bench.node.overview().workers[0]?.held).toBe(bench.node.openLeases);
    for (const i of [0, 777, 1_999]) {
      const report = bench.receipt(all[i] as Attempt);
      bench.settle();
      expect(bench.verdicts(report)).toEqual([["accepted"]]);
      expect(bench.inspect(`e${i}`).view.phases.map(({ name }) => name)).toEqual(["a", "b"]);
    }
    expect(bench.attempts("broker")).toHaveLength(2_003);
    const again = bench.receipt(all[777] as Attempt);
    bench.settle();
    expect(bench.verdicts(again)).toEqual([["gone"]]);
    expect(bench.node.residentCount).toBeLessThan(100);
  });

  test("leave memory also if their events are published late", () => {
    const bench = queueFixture({ outbox: true });
    submit(bench, 200);
    // Events that are published later would bring them back.
    expect(bench.node.residentCount).toBe(200);
    for (let i = 0; i < 200; i++)
      bench.input({ kind: "published", execution: `e${i}`, seq: bench.journal(`e${i}`).length });
    bench.settle();
    expect(bench.node.residentCount).toBeLessThan(100);
  });

  test("are not loaded when the node begins anew, cleanly or not; receipts of before count, and nothing is sent twice", () => {
    for (const clean of [true, false]) {
      const bench = queueFixture({ suspectMs: 5_000 });
      const all = submit(bench, 300);
      // What was sent last is in memory only.
      bench.restart({ clean });
      join(bench);
      expect(bench.node.residentCount).toBeLessThan(100);
      bench.sleep(20_000);
      const sentAgain = bench.attempts("broker").length;
      expect(sentAgain).toBeLessThan(50);
      const report = bench.receipt(all[7] as Attempt, { payload: "7" });
      bench.settle();
      expect(bench.verdicts(report)).toEqual([["accepted"]]);
      expect(bench.inspect("e7").view.phases.map(({ name }) => name)).toEqual(["a", "b"]);
      expect(bench.inspect("e8").why).toContain("receipt");
    }
  });

  test("are shown as sent, also after they were looked at", () => {
    const bench = queueFixture();
    submit(bench, 100);
    const { commands } = bench.inspect("e3");
    expect(commands?.map(({ procStatus }) => procStatus)).toEqual(["RUNNING", "PENDING"]);
    expect(bench.inspect("e3").commands?.[0]?.procStatus).toBe("RUNNING");
    expect(bench.attempts("broker")).toHaveLength(100);
  });

  test("that are given back are sent again as the same attempt, wherever they are", () => {
    const bench = queueFixture();
    const all = submit(bench, 100);
    bench.release("broker", all[5] as Attempt);
    bench.settle();
    const again = bench.attempts("broker").slice(100);
    expect(again.map(({ grant, item }) => [grant.execution, item.attempt])).toEqual([["e5", 1]]);
    sent(bench, ...again);
    // The first one may be done all the same.
    const report = bench.receipt(all[5] as Attempt);
    bench.settle();
    expect(bench.verdicts(report)).toEqual([["accepted"]]);
  });

  test("end when they are cancelled, with a broker and without one", () => {
    const bench = queueFixture();
    submit(bench, 100);
    bench.control("cancel", "e5");
    bench.settle();
    expect(bench.of("withdraw")[0]).toMatchObject({ from: { execution: "e5" }, why: "cancelled" });
    bench.restart({ clean: false });
    bench.control("cancel", "e6");
    bench.sleep(1_000);
    expect(bench.status("e6")).toBe("cancelled");
  });

  test("that are paused stay at the broker, and their receipts count", () => {
    const bench = queueFixture();
    const all = submit(bench, 100);
    bench.control("pause", "e5");
    bench.settle();
    bench.receipt(all[5] as Attempt);
    bench.control("resume", "e5");
    bench.settle();
    expect(bench.inspect("e5").view.phases.at(-1)?.name).toBe("b");
  });

  test("are looked after when they have waited for long, also of a former process", () => {
    const bench = queueFixture({ checkMs: 60_000 });
    submit(bench, 100);
    bench.restart({ clean: true });
    join(bench);
    bench.sleep(60_000);
    const checked = new Set(bench.of("check-sent").map(({ at }) => at.attempt.execution));
    expect(checked.size).toBeGreaterThan(40);
    expect(bench.of("check-sent")[0]).toMatchObject({ worker: "broker", at: { topic: "CMD_A" } });
    const before = bench.of("check-sent").length;
    bench.sleep(30_000);
    expect(bench.of("check-sent").length - before).toBeLessThan(50);
  });
});

describe("a receipt that does not come in time", () => {
  test("is noticed when its time has come, in memory or not, and the command goes out once more", () => {
    const bench = queueFixture();
    submit(bench, 100, { timeout: "30s", retry: RETRY });
    bench.sleep(29_999);
    expect(bench.attempts("broker")).toHaveLength(100);
    bench.sleep(1);
    expect(bench.events("e0", "tasks.retrying")).toHaveLength(1);
    expect(bench.events("e99", "tasks.retrying")).toHaveLength(1);
    bench.sleep(1_000);
    const second = bench.attempts("broker").slice(100);
    expect(second.map(({ item }) => item.attempt)).toEqual(Array.from({ length: 100 }, () => 2));
  });

  test("is the time since it was sent, whoever has the execution by then", () => {
    for (const clean of [true, false]) {
      const bench = queueFixture();
      submit(bench, 100, { timeout: "30s", retry: RETRY });
      bench.sleep(20_000);
      bench.restart({ clean });
      join(bench);
      bench.sleep(9_999);
      expect(bench.events("e0", "tasks.retrying")).toHaveLength(0);
      bench.sleep(1);
      expect(bench.events("e0", "tasks.retrying")).toHaveLength(1);
    }
  });

  test("is not waited for in a second attempt by the time of the first", () => {
    const bench = queueFixture();
    submit(bench, 60, { timeout: "30s", retry: RETRY });
    bench.sleep(30_000);
    bench.sleep(1_000);
    sent(bench, ...bench.attempts("broker").slice(60));
    bench.sleep(10_000);
    const id = Array.from({ length: 60 }, (_, i) => `e${i}`).find((one) => !bench.node.isResident(one)) ?? "";
    bench.restart({ clean: true });
    join(bench);
    bench.sleep(18_000);
    expect(bench.events(id, "tasks.retrying")).toHaveLength(1);
    const late = bench.attempts("broker").length;
    bench.sleep(3_000);
    expect(bench.events(id, "tasks.retrying")).toHaveLength(2);
    expect(bench.attempts("broker").length).toBeGreaterThan(late);
  });
});

test("few commands cost no commit of their own", () => {
  const bench = queueFixture();
  const [first] = submit(bench, 1);
  expect(bench.of("commit")).toHaveLength(1);
  bench.receipt(first as Attempt);
  bench.settle();
  expect(bench.of("commit")).toHaveLength(2);
});
