// Events that are published by somebody: given out after their commit, and again by whoever comes next, until they are.
import { describe, expect, test } from "vitest";
import { type Attempt, NodeFixture } from "../../../test/fixtures/engine/node-fixture.ts";
import { phase } from "../../../test/fixtures/kernel/kernel-run-fixture.ts";
import { EVENTS_DUE } from "./outbox.ts";

function outboxFixture(): NodeFixture {
  const bench = new NodeFixture({ outbox: true });
  bench.join("w1", ["w.a"]);
  return bench;
}
const given = (bench: NodeFixture) =>
  bench.of("publish").map(({ execution, from, to }) => `${execution} ${from}-${to}`);
const rows = (bench: NodeFixture) =>
  bench.tables
    .scanTimers({ from: EVENTS_DUE, until: EVENTS_DUE, max: 100, partitions: null })
    .map(({ execution }) => execution);

describe("events to be published", () => {
  test("are given out after their commit, without gaps, and the store says that they are not published", () => {
    const bench = outboxFixture();
    bench.start(bench.plan([phase("a")]), "e1");
    bench.work();
    const events = bench.journal("e1");
    const numbers = bench
      .of("publish")
      .flatMap(({ from, to }) => Array.from({ length: to - from + 1 }, (_, i) => from + i));
    expect(numbers).toEqual(events.map(({ seq }) => seq));
    expect(rows(bench)).toEqual(["e1"]);
  });

  test("that are published are forgotten: the store says nothing of them", () => {
    const bench = outboxFixture();
    bench.start(bench.plan([phase("a")]), "e1");
    bench.work();
    bench.input({ kind: "published", execution: "e1", seq: bench.journal("e1").length });
    bench.settle();
    expect(rows(bench)).toEqual([]);
    expect(bench.node.residentCount).toBe(0);
    bench.restart();
    bench.inspect("e1");
    expect(given(bench)).toEqual([]);
  });

  test("that are not published when the process dies are given out by the next, from where it was", () => {
    const bench = outboxFixture();
    bench.start(bench.plan([phase("a")]), "e1");
    bench.settle();
    bench.input({ kind: "published", execution: "e1", seq: 1 });
    bench.receipt(bench.attempts()[0] as Attempt);
    bench.settle();
    const last = bench.journal("e1").length;
    bench.restart();
    expect(rows(bench)).toEqual(["e1"]);
    bench.inspect("e1");
    expect(given(bench)).toEqual([`e1 2-${last}`]);
    bench.input({ kind: "published", execution: "e1", seq: last });
    bench.settle();
    expect(rows(bench)).toEqual([]);
  });

  test("are given out again if whoever publishes lost them", () => {
    const bench = outboxFixture();
    bench.start(bench.plan([phase("a")]), "e1");
    bench.work();
    const last = bench.journal("e1").length;
    bench.outputs = [];
    bench.input({ kind: "publish-again" });
    bench.settle();
    expect(given(bench)).toEqual([`e1 1-${last}`]);
  });

  test("are none where nobody publishes", () => {
    const bench = new NodeFixture();
    bench.join("w1", ["w.a"]);
    bench.start(bench.plan([phase("a")]), "e1");
    bench.work();
    expect(given(bench)).toEqual([]);
    expect(rows(bench)).toEqual([]);
  });
});
