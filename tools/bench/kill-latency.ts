/** Measures how late endless scripts are killed after their time limit, for `npm run budgets`. */
import { type Clock, systemClock } from "../../src/std/clock.ts";
import type { SandboxPool } from "../../src/worker/sandbox/sandbox-pool.ts";

export interface KillLatency {
  readonly name: string;
  /** How the attempt ended; "killed time" is expected. */
  readonly end: string;
  /** The time from reaching the limit until the pool reports the end; the longest of all repetitions. */
  readonly lateMs: number;
}

const LIMIT_MS = 200;

const ENDLESS: readonly (readonly [name: string, expression: string])[] = [
  ["a loop", "s => { for (;;); }"],
  ["an async loop", "async s => { for (;;) await 0 }"],
  ["a flood of promises", "s => new Promise(() => { const f = () => { queueMicrotask(f) }; f() })"],
  ["a regular expression", "s => /^(a+)+$/.test('a'.repeat(60) + 'b')"],
  ["a getter on the state", "s => ({ get a() { for (;;); } })"],
  ["errors caught again and again", "s => { for (;;) try { for (;;); } catch {} }"],
  ["memory given back again and again", "s => { for (;;) new Array(1e5).fill(1) }"],
  ["a toJSON without an end", "s => ({ toJSON() { for (;;); } })"],
  [
    "numbers that the engine multiplies without looking up",
    "s => { const n = 3n ** 100000n; for (;;) n * n }",
  ],
  ["a flood of logs", "s => { for (;;) console.log('x'.repeat(1e4)) }"],
];

export async function measureKillLatency(
  pool: SandboxPool,
  { repetitions = 3, clock = systemClock() }: { repetitions?: number; clock?: Clock } = {},
): Promise<KillLatency[]> {
  const measured: KillLatency[] = [];
  for (const [name, expression] of ENDLESS) {
    let lateMs = 0;
    let how = "";
    for (let i = 0; i < repetitions; i++) {
      let startedAt = clock.now();
      const running = pool.run(
        {
          project: "kill-latency",
          runs: [{ name: "endless", expression, timeoutMs: LIMIT_MS }],
          state: "null",
          input: "null",
          attempt: 1,
        },
        ({ kind }) => {
          if (kind === "run_started") startedAt = clock.now();
        },
      );
      const end = await running.done;
      how = end.kind === "killed" ? `killed ${end.limit}` : end.kind;
      lateMs = Math.max(lateMs, clock.now() - startedAt - LIMIT_MS);
    }
    measured.push({ name, end: how, lateMs });
  }
  return measured;
}
