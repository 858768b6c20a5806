// A workflow and a topic that `rondo worker --broker` serves: see readme.md beside this file.
import { topic, workflow } from "rondo";

interface Order {
  readonly lines: readonly { readonly article: string; readonly count: number }[];
}

/** Every line of an order is reserved, then a command has it shipped. */
export const orders = workflow<Order>({ name: "orders" })
  .phase("reserve", {
    *enumerate({ input }) {
      for (const line of input.lines) yield line;
    },
    async process({ task, idempotencyKey, log }) {
      log(`${task.count} of ${task.article}, once: ${idempotencyKey}`);
      return { article: task.article, reserved: task.count };
    },
    retry: { attempts: 5, min: "200ms" },
  })
  .command("ship", {
    topic: "ORDERS_CMD_SHIP",
    cmd: { cmd_type: "SHIP", cmd_data: { lines: "${input.lines}" } },
  })
  .returns(({ phases }) => ({ reserved: phases.reserve.count }));

/** Does the commands of ORDERS_CMD_SHIP; what it returns is the receipt's cmd_result. */
export const ship = topic<Order>("ORDERS_CMD_SHIP", ({ cmd }) => ({
  parcels: cmd.cmd_data.lines.length,
}));
