import { describe, expect, test } from "vitest";
import { isHashedId, messageIdOf } from "../protocol/amqp-wire.ts";
import { brokerNames } from "./names.ts";

const AT = { execution: "ex_1", phase: "resize", visit: 1, handler: "index", round: 1 };
const names = brokerNames("distribot");

describe("names at the broker", () => {
  test("of a first visit are the plain ones", () => {
    expect(names.tasks(AT)).toBe("distribot.workflow.ex_1.resize.index.tasks");
    expect(names.finished(AT)).toBe("distribot.workflow.ex_1.resize.index.finished");
    expect(names.enumerate("list")).toBe("distribot.workflow.handler.list.enumerate");
    expect(names.process("list")).toBe("distribot.workflow.handler.list.process");
    expect(names.enumerated).toBe("distribot.workflow.handler.enumerated");
    expect(names.cancelConsumer).toBe("distribot.cancel.consumer");
    expect(names.ended("ex_1")).toBe("distribot.workflow.ex_1.finished");
    expect(names.eventKey("workflow.created")).toBe("distribot.workflow.created");
  });

  test("of later visits and rounds say so before their last part", () => {
    expect(names.tasks({ ...AT, visit: 2 })).toBe("distribot.workflow.ex_1.resize.index.v2.tasks");
    expect(names.finished({ ...AT, visit: 3, round: 2 })).toBe(
      "distribot.workflow.ex_1.resize.index.v3.r2.finished",
    );
  });

  test("stay under 255 bytes, however long the id is, and differ where it differs", () => {
    const long = brokerNames("p".repeat(40));
    const place = { ...AT, phase: "p".repeat(40), handler: "h".repeat(40), visit: 1_000, round: 99 };
    const found = ["a", "b"].map((end) => ({ ...place, execution: `${"x".repeat(250)}${end}` }));
    const attempt = { epoch: 999_999, attempt: 1_000, claim: 1_000, task: -1 };
    const all = found.flatMap((at) => [
      long.tasks(at),
      long.alone(at),
      long.finished(at),
      long.intake({ ...at, ...attempt }),
      long.ended(at.execution),
    ]);
    for (const name of all) expect(Buffer.byteLength(name)).toBeLessThanOrEqual(255);
    expect(new Set(all).size).toBe(all.length);
  });
});

test("an id with other characters than letters, digits, _ : ~ and - stands in names by its hash", () => {
  const odd = ["a/b", "a?b", "ä ö", "日本語", "日本誤", "%2F", "語".repeat(66)].map((execution) =>
    names.tasks({ ...AT, execution }),
  );
  for (const name of odd) {
    expect(name).toMatch(/^distribot\.workflow\.[A-Za-z0-9_:~-]*~[0-9a-f]{32}\.resize\.index\.tasks$/);
    expect(name.length).toBeLessThanOrEqual(255);
  }
  expect(new Set(odd).size).toBe(odd.length);
});

test("an id that is too long for a message's property is replaced there by its hash", () => {
  expect(messageIdOf("ex_1.a.1.b.1.0.1.0.1")).toBe("ex_1.a.1.b.1.0.1.0.1");
  const long = `${"%E8".repeat(200)}.a.1.b.1.0.1.0.1`;
  expect(isHashedId(messageIdOf(long))).toBe(true);
  expect(messageIdOf(long).length).toBeLessThanOrEqual(255);
});
