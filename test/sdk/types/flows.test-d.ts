/** Type tests of what code in a flow calls: steps, children, maps, waits, values that repeat, and the next execution. Compiled by tsc, never run. */
import { z } from "zod";
import { flow, handlerFor, workflow } from "../../../src/index.ts";
import { same } from "../../fixtures/sdk/same-type.ts";

const kid = flow("kid", async (_, input: { n: number }) => input.n * 2);
const square = handlerFor<number>()({ name: "square", process: ({ task }) => `${task * task}` });

export const everything = flow(
  "everything",
  async ({ step, run, start, map, waitFor, now, random, uuid, continueAs }, input) => {
    same<{ total: number }>()(input);
    const [a, b] = await Promise.all([
      step("a", { retry: { attempts: 5, min: "1s" }, timeout: "10s" }, () => 1),
      step("b", async () => "b"),
    ]);
    same<number>()(a);
    same<string>()(b);
    // @ts-expect-error a step has no such option
    await step("c", { atempts: 5 }, () => 1);
    same<number>()(await run(kid, { n: 1 }));
    // @ts-expect-error the input of the child is checked
    await run(kid, { n: "1" });
    same<{ readonly id: string }>()(await start(kid, { n: 2 }, { name: "alone" }));
    same<number[]>()(await map("here", [1, 2], (n) => n + 1, { concurrency: 2 }));
    const squares = await map("away", [1, 2], square);
    same<number>()(squares.count);
    for await (const text of squares.results()) same<string>()(text);
    for await (const { data } of squares.failures()) same<number | undefined>()(data);
    // @ts-expect-error the handler takes numbers
    await map("wrong", ["1"], square);
    const { name, value } = await waitFor("any", { signal: ["add", "stop"], schema: z.number() });
    same<"add" | "stop">()(name);
    same<number>()(value);
    same<number>()(now());
    same<number>()(random("dice"));
    same<string>()(uuid());
    if (input.total < 10) return continueAs({ total: input.total + a });
    // @ts-expect-error the next execution has the same type of input
    if (name === "stop") return continueAs({ total: "1" });
    return "over";
  },
  { input: z.object({ total: z.number() }), children: [kid, square] },
);

// `continueAs` gives nothing back, so the output is that of the last execution.
export const output = workflow({ name: "output" }).phase("one", {
  process: ({ continueAs }) => (Math.sign(1) > 0 ? "over" : continueAs(1)),
});
