/** Type tests of events and triggers. Compiled by tsc, never run. */
import { z } from "zod";
import { event, on, type Trigger } from "../../../src/sdk/event.ts";
import { flow } from "../../../src/sdk/flow.ts";
import type { RondoClient } from "../../../src/sdk/handle.ts";
import { workflow } from "../../../src/sdk/workflow.ts";
import { same } from "../../fixtures/sdk/same-type.ts";

interface Paid {
  order: string;
  amount: number;
}

const paid = event<Paid>("order/paid");

same<Trigger<Paid>>()(on(paid));
same<Trigger<Paid[]>>()(on(paid, { batch: { max: 10, wait: "1s" } }));
// An event with a signal starts nothing, so its data need not be an input.
same<Trigger<never>>()(on(paid, { signal: "paid", execution: "/order" }));
same<Trigger<Paid>>()(on(paid, { key: "/order", singleton: "signal", signal: "paid" }));
// A name alone says nothing about the data. The schema of the input checks it at run time.
same<Trigger<never>>()(on("order/paid"));
same<Trigger<Paid>>()(on<Paid>("order/paid"));

export const fits = [
  workflow<Paid>({ name: "a", on: on(paid) }),
  workflow<{ order: string }>({ name: "b", on: [on(paid), on<{ order: string }>("order/late")] }),
  workflow({ name: "a", on: [on("order/paid")] }),
  workflow<Paid[]>({ name: "c", on: on(paid, { batch: { max: 10, wait: "1s" } }) }),
  workflow({ name: "d", input: z.object({ order: z.string() }), on: on(paid, { match: { amount: 3 } }) }),
  workflow<Paid>({
    name: "e",
    on: on(paid, { key: "/order", cancelOn: { event: event<{ id: string }>("order/gone") } }),
  }),
  flow("f", async (_, input: { order: string }) => input.order, { on: on(paid) }),
  flow("g", async (_, { order }) => order, { input: z.object({ order: z.string() }), on: on(paid) }),
  flow("h", async (_, { order }) => order, { input: z.object({ order: z.string() }), on: on("order/paid") }),
  flow("i", async (_, { at }) => at, {
    input: z.object({ at: z.number() }),
    on: [on("order/placed", { match: { vip: true } }), on(paid, { signal: "paid", execution: "/order" })],
  }),
  workflow<{ at: number }>({ name: "j", on: on("order/paid", { signal: "paid", execution: "/order" }) }),
  workflow<{ at: number }[]>({ name: "k", on: on("order/placed", { batch: { max: 2, wait: "1s" } }) }),
  workflow({ name: "l", input: z.object({ at: z.number() }), on: [on("order/placed")] }),
];

export const mistakes = [
  // @ts-expect-error the data has no such member
  on(paid, { match: { amout: 1 } }),
  // @ts-expect-error the value is of another type
  on(paid, { match: { amount: "1" } }),
  // @ts-expect-error there is no such mode
  on(paid, { singleton: "replace" }),
  // @ts-expect-error the data is not the input
  workflow<{ order: number }>({ name: "e", on: on(paid) }),
  // @ts-expect-error a batch is a list
  workflow<Paid>({ name: "f", on: on(paid, { batch: { max: 10, wait: "1s" } }) }),
  // @ts-expect-error the data is not the input of the flow
  flow("f", async (_, input: { order: number }) => input.order, { on: on(paid) }),
  // @ts-expect-error the event also starts executions, and its data is not the input
  workflow<{ at: number }>({ name: "h", on: on(paid, { singleton: "signal", signal: "paid" }) }),
  // @ts-expect-error the data has no such member
  on(paid, { match: { amout: 1 }, signal: "paid", execution: "/order" }),
  // @ts-expect-error the data does not fit the schema
  workflow({ name: "g", input: z.object({ id: z.string() }), on: on(paid) }),
];

export async function sending(rondo: RondoClient): Promise<void> {
  same<boolean>()((await rondo.send(paid({ order: "a", amount: 1 }, { id: "x" }))).repeated);
  await rondo.send({ name: "any", data: [1, 2] });
  // @ts-expect-error a member is missing
  await rondo.send(paid({ order: "a" }));
  // @ts-expect-error there is no such option
  await rondo.send(paid({ order: "a", amount: 1 }, { key: "x" }));
}
