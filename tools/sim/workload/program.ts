/** The program of a task's code, step by step. It is drawn from a hash, so that every attempt has the same program. */
import { hashText } from "../../../src/std/random.ts";

export type Op =
  /** `isLater`: only attempts after the first have this step, like code that reads the number of its attempt. */
  | { readonly kind: "step"; readonly name: string; readonly isLater: boolean }
  | { readonly kind: "sleep"; readonly name: string; readonly ms: number }
  /** `isCaught`: the code goes on after a time-out; else the task fails for good. */
  | {
      readonly kind: "wait";
      readonly name: string;
      readonly timeoutMs: number | null;
      readonly isCaught: boolean;
    };

/** The signals that tasks wait for. */
export const SIGNALS = ["go", "stop"] as const;

/** The program of a task; empty: the code just ends. */
export function programOf(seed: number, use: string, task: number): readonly Op[] {
  const draw = (name: string) => hashText(`${seed}/program/${name}/${use}/${task}`);
  if (hashText(`${seed}/program/${use}`) % 10 >= 4) return [];
  const ops: Op[] = [];
  const signals: string[] = [...SIGNALS];
  const count = 1 + (draw("count") % 4);
  for (let i = 0; i < count; i++) {
    const dice = draw(`kind ${i}`) % 10;
    if (dice < 2)
      ops.push({ kind: "sleep", name: `z${i}`, ms: [0, 30, 400, 3_000][draw(`ms ${i}`) % 4] ?? 0 });
    else if (dice < 5 && signals.length > 0) {
      const [name] = signals.splice(draw(`signal ${i}`) % signals.length, 1) as [string];
      const timeoutMs = [null, null, 200, 2_000][draw(`timeout ${i}`) % 4] ?? null;
      ops.push({ kind: "wait", name, timeoutMs, isCaught: draw(`caught ${i}`) % 2 === 0 });
    } else ops.push({ kind: "step", name: `s${i}`, isLater: draw(`later ${i}`) % 5 < 2 });
  }
  return ops;
}
