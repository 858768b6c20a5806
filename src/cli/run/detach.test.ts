import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { Screen } from "../progress/screen.ts";
import { Detach } from "./detach.ts";

let close: ReturnType<typeof vi.fn<() => Promise<void>>>;
let leave: ReturnType<typeof vi.fn<(exit: number) => void>>;
let said: string[];
let detach: Detach;

beforeEach(() => {
  vi.useFakeTimers();
  close = vi.fn<() => Promise<void>>(async () => {});
  leave = vi.fn<(exit: number) => void>();
  said = [];
  detach = new Detach({ screen: new Screen({ write: (text) => said.push(text) }), close, leave });
});
afterEach(() => {
  detach.stop();
  vi.useRealTimers();
});

test("the first Ctrl-C closes, its echo by npm changes nothing, the second leaves at once", () => {
  expect(detach.exit).toBeNull();
  process.emit("SIGINT");
  process.emit("SIGINT");
  expect(detach.exit).toBe(130);
  expect(said).toHaveLength(1);
  expect([close.mock.calls.length, leave.mock.calls.length]).toEqual([1, 0]);
  vi.advanceTimersByTime(1_000);
  process.emit("SIGINT");
  expect(close).toHaveBeenCalledTimes(1);
  expect(leave.mock.calls).toEqual([[130]]);
});

test("SIGTERM closes too; whatever signal comes next leaves at once", () => {
  process.emit("SIGTERM");
  expect(detach.exit).toBe(143);
  process.emit("SIGINT");
  expect(leave.mock.calls).toEqual([[130]]);
});

test("after stop, signals are no longer taken", () => {
  const before = process.listenerCount("SIGINT");
  detach.stop();
  expect(process.listenerCount("SIGINT")).toBe(before - 1);
});
