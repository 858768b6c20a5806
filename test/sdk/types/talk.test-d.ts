/** Type tests of signals, updates, streams and published values. Compiled by tsc, never run. */
import { z } from "zod";
import { defineSignal, defineUpdate } from "../../../src/sdk/declared.ts";
import { flow } from "../../../src/sdk/flow.ts";
import type { ExecutionHandle, RondoClient } from "../../../src/sdk/handle.ts";
import type { Json } from "../../../src/std/json.ts";
import { same } from "../../fixtures/sdk/same-type.ts";

const approved = defineSignal("approved", z.object({ by: z.string(), at: z.coerce.date() }));
const paid = defineSignal<{ order: string }>("paid");
const add = defineUpdate("add", { data: z.object({ sku: z.string() }), answer: z.number() });
const ask = defineUpdate<string, boolean>("ask");

export const talking = flow(
  "talking",
  async ({ waitFor, signals, updates, waitForUpdate, stream, publish }) => {
    same<{ by: string; at: Date }>()(await waitFor(approved));
    same<Json>()(await waitFor("any"));
    same<{ by: string; at: Date }>()(await waitFor("second look", { signal: approved, timeout: "1h" }));
    for await (const { order } of signals(paid)) same<string>()(order);
    for await (const request of updates(add)) {
      same<{ sku: string }>()(request.data);
      await request.answer(1);
      // @ts-expect-error the answer is a number
      await request.answer("1");
    }
    const question = await waitForUpdate(ask, { timeout: "1h" });
    same<string>()(question.data);
    await question.answer(true);
    await question.refuse("no");
    const out = stream("answer");
    await out.write("a");
    await out.write({ any: ["json"] });
    publish({ percent: 40 });
    // @ts-expect-error it takes an object
    publish(40);
    // @ts-expect-error there is no such option
    await waitFor(approved, { timout: "1h" });
    // @ts-expect-error the declared signal has a schema of its own
    await waitFor("second look", { signal: approved, schema: z.string() });
  },
);

export async function starting(rondo: RondoClient): Promise<void> {
  await rondo.signalWithStart(talking, null, { name: paid, data: { order: "a" } }, { id: "x" });
  await rondo.signalWithStart(talking, null, { name: approved, data: { by: "jo", at: 1 } }, { id: "x" });
  await rondo.signalWithStart(talking, null, { name: "any", data: [1] }, { id: "x" });
  // @ts-expect-error the data has no such member
  await rondo.signalWithStart(talking, null, { name: paid, data: { oder: "a" } }, { id: "x" });
  // @ts-expect-error an update is no signal
  await rondo.signalWithStart(talking, null, { name: add, data: { sku: "a" } }, { id: "x" });
}

export async function calling(execution: ExecutionHandle<unknown>): Promise<void> {
  await execution.signal(paid, { order: "a" });
  await execution.signal("any", [1, 2]);
  same<number>()(await execution.update(add, { sku: "tea" }));
  same<boolean>()(await execution.update(ask, "really?"));
  same<Json>()(await execution.update("any", 1, { timeout: "1s" }));
  for await (const { chunks } of execution.stream<string>("answer")) same<readonly string[]>()(chunks);
  same<readonly Json[]>()(await execution.stream("answer").chunks());
  same<number | undefined>()((await execution.published<{ percent: number }>()).percent);
  // @ts-expect-error the data has no such member
  await execution.signal(paid, { oder: "a" });
  // @ts-expect-error the data is missing
  await execution.signal(paid);
  // @ts-expect-error the data is of another type
  await execution.update(add, { sku: 7 });
  // @ts-expect-error an update is no signal
  await execution.signal(add, { sku: "tea" });
}
