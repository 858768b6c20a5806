/** Helpers of the sandbox's tests: pools that are closed with the test file, and attempts in a few words. */
import { afterAll } from "vitest";
import {
  openSandboxPool,
  type SandboxPool,
  type SandboxPoolOptions,
} from "../../../src/worker/sandbox/sandbox-pool.ts";
import type {
  ScriptAttempt,
  ScriptEnd,
  ScriptEvent,
  ScriptRun,
} from "../../../src/worker/sandbox/script-attempt.ts";

const open: SandboxPool[] = [];
afterAll(async () => {
  await Promise.all(open.map((pool) => pool.close()));
});

/** A pool with the machine's jail, or without one where there is none: the inner layer is tested all the same. */
export async function testPool(options: SandboxPoolOptions = {}): Promise<SandboxPool> {
  const pool = await openSandboxPool({ childrenMax: 1, unsafeNoJail: true, ...options });
  open.push(pool);
  return pool;
}

/** An attempt of these expressions, named one, two, three. */
export function attemptOf(
  expressions: readonly string[],
  more: Partial<ScriptAttempt> & { timeoutMs?: number } = {},
): ScriptAttempt {
  const { timeoutMs = 30_000, ...rest } = more;
  const names = ["one", "two", "three"];
  const runs = expressions.map(
    (expression, i): ScriptRun => ({
      name: names[i] ?? `run${i}`,
      expression,
      timeoutMs,
    }),
  );
  return { project: "default", runs, state: "{}", input: "null", attempt: 1, ...rest };
}

/** The end of an attempt and everything that happened before it. */
export async function runToEnd(
  pool: SandboxPool,
  attempt: ScriptAttempt,
): Promise<{ end: ScriptEnd; events: ScriptEvent[] }> {
  const events: ScriptEvent[] = [];
  const end = await pool.run(attempt, (event) => events.push(event)).done;
  return { end, events };
}
