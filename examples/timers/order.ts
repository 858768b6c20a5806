// An order that waits for its payment, cools off, and is sent; without a payment in time it is dropped.
import { workflow } from "rondo";

export const order = workflow<{ item: string }>({ name: "order" })
  .phase("reserve", { process: ({ task, log }) => log(`reserved ${task.item}`) })
  .waitFor("paid", { timeout: "1d", optional: true })
  .sleep("cool-off", "500ms")
  .phase("send", {
    process: ({ phases, input }) =>
      phases.paid.value === null ? `dropped ${input.item}` : `sent ${input.item}`,
  });
