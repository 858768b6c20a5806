// Events that a publisher takes: passed to it after their commit, and again by the next owner, until they are published.
import { describe, expect, test } from "vitest";
import { type Attempt, NodeFixture } from "../../../test/fixtures/engine/node-fixture.ts";
import { phase } from "../../../test/fixtures/kernel/kernel-run-fixture.ts";
import { EVENTS_DUE } from "./outbox.ts";

function outboxFixture(): NodeFixture {
  const fixture = new NodeFixture({ outbox: true });
  fixture.join("w1", ["w.a"]);
  return fixture;
}
const given = (fixture: NodeFixture) =>
  fixture.of("publish").map(({ execution, from, to }) => `${execution} ${from}-${to}`);
const rows = (fixture: NodeFixture) =>
  fixture.tables
    .scanTimers({ from: EVENTS_DUE, until: EVENTS_DUE, max: 100, partitions: null })
    .map(({ execution }) => execution);

describe("events to be published", () => {
  test("are given out after their commit, without gaps, and the store says that they are not published", () => {
    const fixture = outboxFixture();
    fixture.start(fixture.plan([phase("a")]), "e1");
    fixture.work();
    const events = fixture.journal("e1");
    const numbers = fixture
      .of("publish")
      .flatMap(({ from, to }) => Array.from({ length: to - from + 1 }, (_, i) => from + i));
    expect(numbers).toEqual(events.map(({ seq }) => seq));
    expect(rows(fixture)).toEqual(["e1"]);
  });

  test("that are published are forgotten: the store says nothing of them", () => {
    const fixture = outboxFixture();
    fixture.start(fixture.plan([phase("a")]), "e1");
    fixture.work();
    fixture.input({ kind: "published", execution: "e1", seq: fixture.journal("e1").length });
    fixture.settle();
    expect(rows(fixture)).toEqual([]);
    expect(fixture.node.residentCount).toBe(0);
    fixture.restart();
    fixture.inspect("e1");
    expect(given(fixture)).toEqual([]);
  });

  test("are marked as published after the end: the execution does not count as open while the mark is written", () => {
    const fixture = outboxFixture();
    fixture.start(fixture.plan([phase("a")]), "e1");
    fixture.settle();
    expect(fixture.node.isOpen("e1")).toBe(true);
    fixture.receipt(fixture.attempts()[0] as Attempt);
    fixture.settle();
    fixture.input({ kind: "published", execution: "e1", seq: fixture.journal("e1").length });
    fixture.advance();
    expect(fixture.node.isResident("e1")).toBe(true);
    expect(fixture.node.isOpen("e1")).toBe(false);
  });

  test("that are not published when the process dies are given out by the next, from where it was", () => {
    const fixture = outboxFixture();
    fixture.start(fixture.plan([phase("a")]), "e1");
    fixture.settle();
    fixture.input({ kind: "published", execution: "e1", seq: 1 });
    fixture.receipt(fixture.attempts()[0] as Attempt);
    fixture.settle();
    const last = fixture.journal("e1").length;
    fixture.restart();
    expect(rows(fixture)).toEqual(["e1"]);
    fixture.inspect("e1");
    expect(given(fixture)).toEqual([`e1 2-${last}`]);
    fixture.input({ kind: "published", execution: "e1", seq: last });
    fixture.settle();
    expect(rows(fixture)).toEqual([]);
  });

  test("are given out again if whoever publishes lost them", () => {
    const fixture = outboxFixture();
    fixture.start(fixture.plan([phase("a")]), "e1");
    fixture.work();
    const last = fixture.journal("e1").length;
    fixture.outputs = [];
    fixture.input({ kind: "publish-again" });
    fixture.settle();
    expect(given(fixture)).toEqual([`e1 1-${last}`]);
  });

  test("are none where nobody publishes", () => {
    const fixture = new NodeFixture();
    fixture.join("w1", ["w.a"]);
    fixture.start(fixture.plan([phase("a")]), "e1");
    fixture.work();
    expect(given(fixture)).toEqual([]);
    expect(rows(fixture)).toEqual([]);
  });
});
