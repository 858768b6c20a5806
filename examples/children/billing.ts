// One execution that has others as its tasks: an invoice for each customer, at most two of them at a time.
import { workflow } from "rondo";

export const invoice = workflow<{ customer: string; hours: number }>({ name: "invoice" })
  .phase("price", { process: ({ task }) => 80 * task.hours })
  .sleep("cool-off", "100ms")
  .returns(async ({ phases, input }) => ({
    customer: input.customer,
    total: await phases.price.reduce((sum, price) => sum + price, 0),
  }));

export const billing = workflow<{ hours: Record<string, number> }>({ name: "billing" })
  .child("invoices", invoice, {
    *enumerate({ input }) {
      for (const [customer, hours] of Object.entries(input.hours)) yield { customer, hours };
    },
    concurrency: 2,
  })
  .returns(async ({ phases }) => ({
    invoices: phases.invoices.count,
    total: await phases.invoices.reduce((sum, { total }) => sum + total, 0),
  }));
