import { expect, test } from "vitest";
import type { Clock } from "./clock.ts";
import { atMost, every, Longer, sleep, within } from "./within.ts";

/** A clock whose timers run when the test says so, and the delays that were asked for. */
function manual() {
  const timers = new Set<{ readonly ms: number; readonly run: () => void }>();
  const asked: number[] = [];
  const clock: Pick<Clock, "after"> = {
    after: (ms, run) => {
      const timer = { ms, run };
      asked.push(ms);
      timers.add(timer);
      return () => timers.delete(timer);
    },
  };
  const fire = (): void => {
    for (const timer of [...timers]) {
      timers.delete(timer);
      timer.run();
    }
  };
  return { clock, asked, timers, fire };
}

const never = new Promise<string>(() => {});

test("a sleep ends by its timer, or by its signal, and leaves no timer", async () => {
  const { clock, asked, timers, fire } = manual();
  const plain = sleep(clock, 5);
  fire();
  await plain;
  const abort = new AbortController();
  const early = sleep(clock, 7, abort.signal);
  expect(timers.size).toBe(1);
  abort.abort();
  await early;
  await sleep(clock, 9, abort.signal);
  expect([asked, timers.size]).toEqual([[5, 7, 9], 0]);
});

test("work that ends in time decides, and its timer is cancelled", async () => {
  const { clock, timers } = manual();
  expect(await within(clock, 5, Promise.resolve("done"), () => "late")).toBe("done");
  const failed = within(clock, 5, Promise.reject(new Error("no")), () => "late");
  await expect(failed).rejects.toThrow("no");
  await atMost(clock, 5, Promise.resolve("done"));
  await new Promise((resolve) => setImmediate(resolve));
  expect(timers.size).toBe(0);
});

test("late work is replaced by a value or an error, or gets longer", async () => {
  const { clock, asked, fire } = manual();
  const answers = [new Longer(3), new Longer(2), "late"];
  const replaced = within<string>(clock, 5, never, () => answers.shift() as string);
  for (let i = 0; i < 3; i++) fire();
  expect([await replaced, asked]).toEqual(["late", [5, 3, 2]]);
  const thrown = within(clock, 5, never, () => {
    throw new Error("no answer");
  });
  fire();
  await expect(thrown).rejects.toThrow("no answer");
  const given = atMost(clock, 5, never);
  fire();
  await given;
});

test("a repeated call stops when it is told to, also from within", () => {
  const { clock, timers, fire } = manual();
  let runs = 0;
  const stop = every(clock, 5, () => {
    if (++runs === 3) stop();
  });
  for (let i = 0; i < 5; i++) fire();
  expect([runs, timers.size]).toEqual([3, 0]);
});
