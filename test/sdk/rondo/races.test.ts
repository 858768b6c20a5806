// Random flows whose branches race each other, under the faults of simulate. The code journals which branch was first, and a later attempt
// must see the branches in the same order.
import { Fatal, flow, handlerFor, StepFailed, WaitTimeout } from "rondo";
import { simulate } from "rondo/testing";
import { expect, test, vi } from "vitest";
import type { FlowContext } from "../../../src/sdk/flow.ts";
import { SeededRandom } from "../../../src/std/random.ts";
import { effort } from "../../fixtures/long.ts";

vi.setConfig({ testTimeout: effort({ usual: 60_000, long: 1_800_000 }) });

const FLOWS = effort({ usual: 5, long: 300 });
const SEEDS = effort({ usual: 3, long: 10 });

const kid = flow("kid", async ({ sleep, step }, ms: number) => {
  if (ms % 2 === 1) await step("odd", () => null);
  await sleep("nap", ms);
});
const double = handlerFor<number>()({ name: "double", process: ({ task }) => task * 2 });

type Part = (context: FlowContext<number>, name: string, ms: number) => Promise<unknown>;

/** What a branch can do before it goes on. */
const PARTS: readonly Part[] = [
  ({ sleep }, name, ms) => sleep(name, ms),
  ({ step }, name, ms) => step(name, () => ms),
  ({ waitFor }, name, timeout) => waitFor(name, { timeout }).catch(only(WaitTimeout)),
  ({ run }, name, ms) => run(kid, ms, { name }),
  ({ step }, name, min) =>
    step(name, { retry: { attempts: 2, min } }, ({ attempt }) => {
      if (attempt === 1) throw new Error("once");
    }),
  ({ step }, name) =>
    step(name, { retry: { attempts: 1 } }, () => {
      throw new Error("never");
    }).catch(only(StepFailed)),
  ({ map }, name, ms) => map(name, [1, 2, 3], (n) => n * ms),
  ({ map }, name) => map(name, [1, 2, 3], double),
];

function only(expected: new (...given: never[]) => Error): (thrown: unknown) => void {
  return (thrown) => {
    if (!(thrown instanceof expected)) throw thrown;
  };
}

const racing = flow(
  "racing",
  async (context, seed: number) => {
    const random = new SeededRandom(seed);
    const branch = async (b: number): Promise<number> => {
      const parts = Array.from({ length: random.between(1, 3) }, () => ({
        part: PARTS[random.below(PARTS.length)] as Part,
        ms: random.below(200),
        promises: random.below(4),
      }));
      for (const [i, { part, ms, promises }] of parts.entries()) {
        await part(context, `${b}.${i}`, ms);
        for (let n = 0; n < promises; n++) await Promise.resolve();
      }
      return b;
    };
    const open = new Map(Array.from({ length: random.between(3, 6) }, (_, b) => [b, branch(b)]));
    const ended: number[] = [];
    while (open.size > 0) {
      const first = await Promise.race(open.values());
      open.delete(first);
      const seen = `${ended.push(first)}: ${ended.join()} at ${context.now(`time ${ended.length}`)}`;
      const journaled = await context.step(`order ${ended.length}`, () => seen);
      if (journaled !== seen) throw new Fatal(`seed ${seed}: saw ${seen} after ${journaled}`);
      if (ended.length === 2 && context.attempt === 1) throw new Error("once");
    }
    return ended.toSorted((a, b) => a - b);
  },
  { children: [kid, double], retry: { attempts: 20, min: 1 } },
);

test("branches end in the same order in every attempt", async () => {
  for (let seed = 0; seed < FLOWS; seed++)
    expect(await simulate(racing, { input: seed, seeds: SEEDS })).toMatchObject({ runs: SEEDS });
});
