// An order of three steps, each with its own budget. If one fails for good, the steps before it are undone, once. If the order is
// cancelled or passes its deadline, compensate undoes them.
import { flow } from "rondo";

const shop = {
  reserve: (item: string, key: string) => `${item} from shelf 7 (${key})`,
  charge: (card: string, key: string) => `charge of ${card} (${key})`,
  ship: (): string => {
    throw new Error("no van is free");
  },
};

export const order = flow(
  "order",
  async ({ step, log }, input: { item: string; card: string }) => {
    const budget = { retry: { attempts: 3, min: "20ms" }, timeout: "10s" } as const;
    const undo: (() => Promise<unknown>)[] = [];
    try {
      const reserved = await step("reserve", budget, ({ idempotencyKey }) =>
        shop.reserve(input.item, idempotencyKey),
      );
      undo.unshift(() => step("release", () => log(`release ${reserved}`)));
      const charged = await step("charge", budget, ({ idempotencyKey }) =>
        shop.charge(input.card, idempotencyKey),
      );
      undo.unshift(() => step("refund", () => log(`refund ${charged}`)));
      return await step("ship", budget, ({ attempt }) => {
        log(`try ${attempt} to ship`);
        return shop.ship();
      });
    } catch (thrown) {
      for (const one of undo) await one();
      return { sold: false, why: (thrown as Error).message };
    }
  },
  {
    // A cancel ends the function from outside, perhaps between a charge and its journal entry. So the services void by key.
    compensate: async ({ step, log }) => {
      await step("charge", ({ idempotencyKey }) => log(`void the charge ${idempotencyKey}`));
      await step("reserve", ({ idempotencyKey }) => log(`void the reservation ${idempotencyKey}`));
    },
  },
);
