import { expect, test } from "vitest";
import { RecentExecutions } from "./recent-executions.ts";

const known = (e: number) => ({ e, end: 0, status: "running", want: "work", finishedAt: null, epoch: 1 });

test("what was used lately is kept, the rest goes, and the number is bounded", () => {
  const recent = new RecentExecutions<ReturnType<typeof known>>(10);
  for (let i = 0; i < 100; i++) {
    recent.set(`e${i}`, known(i));
    expect(recent.get("e0")?.e).toBe(0);
  }
  const kept = Array.from({ length: 100 }, (_, i) => recent.get(`e${i}`)).filter(
    (entry) => entry !== undefined,
  );
  expect(kept.length).toBeLessThanOrEqual(10);
  expect(kept).toContainEqual(known(99));
});

test("after a rollback nothing is known", () => {
  const recent = new RecentExecutions<ReturnType<typeof known>>(4);
  for (let i = 0; i < 4; i++) recent.set(`e${i}`, known(i));
  recent.clear();
  expect(recent.get("e0")).toBeUndefined();
  expect(recent.get("e3")).toBeUndefined();
});
