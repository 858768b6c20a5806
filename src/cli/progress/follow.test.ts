import { afterEach, beforeEach, expect, test, vi } from "vitest";
import type { ExecutionHandle, PublicEvent } from "../../index.ts";
import { follow } from "./follow.ts";
import { Progress } from "./progress.ts";
import { Screen } from "./screen.ts";

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

test("where nothing can be redrawn, it is said why nothing moves: after a while, and once for each reason", async () => {
  const written: string[] = [];
  const screen = new Screen({ isTTY: false, write: (text) => written.push(text) });
  const reasons = [
    "sleeps for another 2 s",
    "sleeps for another 990 ms",
    "waits for 1 child",
    "waits for 2 child",
  ];
  let asked = 0;
  let next: (event: PublicEvent | null) => void = () => {};
  const handle = {
    async *events() {
      for (;;) {
        const event = await new Promise<PublicEvent | null>((resolve) => {
          next = resolve;
        });
        if (event === null) return;
        yield event;
      }
    },
  } as unknown as ExecutionHandle<unknown>;
  const why = async (): Promise<string> => `It ${reasons[Math.floor(asked++ / 2) % reasons.length]}.`;
  const shown = follow(handle, { screen, progress: new Progress(), from: 1, names: ["a"], why });
  await vi.advanceTimersByTimeAsync(3_000);
  expect([asked, written]).toEqual([0, []]);
  await vi.advanceTimersByTimeAsync(20_000);
  expect(written).toEqual(["  It sleeps for another 2 s.\n", "  It waits for 1 child.\n"]);
  // While events arrive, the reason for waiting is not requested.
  const before = asked;
  next({ kind: "workflow.timer.set", seq: 1, at: Date.now() } as unknown as PublicEvent);
  await vi.advanceTimersByTimeAsync(3_000);
  expect(asked).toBe(before);
  next(null);
  await shown;
  await vi.advanceTimersByTimeAsync(60_000);
  expect(asked).toBe(before);
});
