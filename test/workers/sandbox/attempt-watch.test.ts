// A child that was taken over can say anything: whatever could not come from ours ends the attempt and the child.
import { expect, test } from "vitest";
import { systemClock } from "../../../src/std/clock.ts";
import { AttemptWatch } from "../../../src/worker/sandbox/attempt-watch.ts";
import type { ChildListener, SandboxChild } from "../../../src/worker/sandbox/sandbox-child.ts";
import {
  SCRIPT_LIMITS,
  type ScriptEnd,
  type ScriptEvent,
} from "../../../src/worker/sandbox/script-attempt.ts";
import { attemptOf } from "../../fixtures/workers/sandbox-fixture.ts";

const start = { kind: "run_started", run: 0 };
const finish = { kind: "run_finished", run: 0, state: "1", durationMs: 1, memoryBytes: 1 };
const log = { kind: "log", run: 0, level: "info", text: "a" };

/** Feeds lines (text as it is, values as JSON) to an attempt of two runs. */
function hear(...lines: unknown[]): { end: ScriptEnd | null; events: ScriptEvent[]; killed: boolean } {
  const heard = { end: null as ScriptEnd | null, events: [] as ScriptEvent[], killed: false };
  const child = {
    listener: null as ChildListener | null,
    send() {},
    kill() {
      heard.killed = true;
    },
    residentBytes: () => null,
  };
  const watch = new AttemptWatch({
    child: child as unknown as SandboxChild,
    attempt: attemptOf(["s => 1", "s => 2"]),
    limits: { ...SCRIPT_LIMITS, logLines: 3 },
    clock: systemClock(),
    onEvent: (event) => heard.events.push(event),
    onEnd: (end) => {
      expect(heard.end).toBe(null);
      heard.end = end;
    },
  });
  watch.begin();
  for (const line of lines)
    child.listener?.line(
      typeof line === "object" && line !== null ? JSON.stringify(line) : (line as string | null),
    );
  return heard;
}

test.each([
  ["no JSON", ["hello"]],
  ["a line that is too long", [null]],
  ["another shape", [{ kind: "run_started", run: 0, extra: 1 }]],
  ["an unknown kind", [{ kind: "shell", run: 0 }]],
  ["__proto__", ['{"kind":"run_started","run":0,"__proto__":{"a":1}}']],
  ["ready again", [start, { kind: "ready" }]],
  ["a log before the start", [log]],
  ["a log of another run", [start, { ...log, run: 1 }]],
  ["a level that does not exist", [start, { ...log, level: "root" }]],
  ["a line of log over the limit", [start, { ...log, text: "x".repeat(8_193) }]],
  ["too many logs", [start, log, log, log, log, log, log]],
  ["a start out of order", [{ ...start, run: 1 }]],
  ["two starts", [start, start]],
  ["a finish without a start", [finish]],
  ["a finish of another run", [start, { ...finish, run: 1 }]],
  ["two finishes", [start, finish, finish]],
  ["a negative duration", [start, { ...finish, durationMs: -1 }]],
])("%s is not trusted", (_what, lines) => {
  expect(hear(...lines)).toMatchObject({ killed: true, end: { kind: "killed", limit: "security" } });
});

test.each([
  ["no JSON", "{"],
  ["too deep", "[".repeat(200) + "]".repeat(200)],
  ["too large", `"${"x".repeat(8 * 1_048_576)}"`],
])("a state that is %s is refused", (_what, state) => {
  const { end, events, killed } = hear(start, { ...finish, state });
  expect(killed).toBe(true);
  expect(end).toMatchObject({ kind: "failed", run: "one", fatal: true, error: { name: "NotStorable" } });
  expect(events.map(({ kind }) => kind)).toEqual(["run_started", "run_crashed"]);
});

test("what comes after the end is not heard", () => {
  const { end, events } = hear(start, finish, { ...start, run: 1 }, { ...finish, run: 1 }, start, "junk");
  expect(end).toEqual({ kind: "done", state: "1", oversized: false });
  expect(events).toHaveLength(4);
});

test("a child that takes too much memory is killed, whatever it says", async () => {
  const end = await new Promise((resolve) => {
    const child = { listener: null, send() {}, kill() {}, residentBytes: () => 2 ** 30 };
    new AttemptWatch({
      child: child as unknown as SandboxChild,
      attempt: attemptOf(["s => 1"]),
      limits: SCRIPT_LIMITS,
      clock: systemClock({ hold: true }),
      onEvent: () => {},
      onEnd: resolve,
    }).begin();
  });
  expect(end).toMatchObject({ kind: "killed", limit: "memory" });
});
