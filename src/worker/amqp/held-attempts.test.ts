import { describe, expect, test } from "vitest";
import { CancelledCommands } from "./held-attempts.ts";

const at = (execution: string, more: object = {}) => ({
  ...{ execution, phase: "p", visit: 1, handler: "h", round: 1, task: 0, attempt: 2, claim: 1, epoch: 1 },
  ...more,
});

describe("cancelled commands", () => {
  test("are known by their task: earlier attempts too, later ones and other rounds not", () => {
    const cancelled = new CancelledCommands();
    cancelled.add(at("a"));
    cancelled.add(at("a", { attempt: 1 }));
    for (const more of [{}, { attempt: 1 }, { claim: 9, epoch: 9 }])
      expect(cancelled.has(at("a", more))).toBe(true);
    for (const more of [{ attempt: 3 }, { round: 2 }, { task: 1 }, { visit: 2 }, { handler: "i" }])
      expect(cancelled.has(at("a", more))).toBe(false);
    expect(cancelled.has(at("b"))).toBe(false);
  });

  test("of very many the oldest are forgotten", () => {
    const cancelled = new CancelledCommands();
    for (let n = 0; n < 10_000; n++) cancelled.add(at(`e${n}`));
    cancelled.add(at("e0"));
    cancelled.add(at("one more"));
    expect([cancelled.has(at("e0")), cancelled.has(at("e1")), cancelled.has(at("e2"))]).toEqual([
      true,
      false,
      true,
    ]);
  });
});
