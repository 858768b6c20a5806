// rondo/testing itself: virtual time, crashes, determinism.

import { RetryAfter, workflow } from "rondo";
import { testRondo } from "rondo/testing";
import { describe, expect, test } from "vitest";

const HOUR = 3_600_000;

describe("virtual time", () => {
  test("stands still unless it is advanced", async () => {
    await using t = await testRondo({ workflows: [] });
    const before = t.clock.now();
    await t.settle();
    expect(t.clock.now()).toBe(before);
    await t.clock.advance("1h");
    expect(t.clock.now()).toBe(before + HOUR);
  });

  test("lets a workflow sleep a day without anybody waiting", async () => {
    const nap = workflow({ name: "nap" })
      .sleep("a", "1d")
      .phase("b", { process: () => "awake" });
    await using t = await testRondo({ workflows: [nap] });
    const execution = await t.start(nap, null);
    await t.clock.advance(24 * HOUR - 1);
    expect((await execution.status()).phase).toBe("a");
    await t.clock.advance(1);
    expect((await execution.status()).status).toBe("done");
  });
});
