// An order of three steps, each with its own budget. If one fails for good, the steps before it are undone, once.
import { flow } from "rondo";

const shop = {
  reserve: (item: string) => `${item} from shelf 7`,
  charge: (card: string) => `charge of ${card}`,
  ship: (): string => {
    throw new Error("no van is free");
  },
};

export const order = flow("order", async ({ step, log }, input: { item: string; card: string }) => {
  const budget = { retry: { attempts: 3, min: "20ms" }, timeout: "10s" } as const;
  const undo: (() => Promise<unknown>)[] = [];
  try {
    const reserved = await step("reserve", budget, () => shop.reserve(input.item));
    undo.unshift(() => step("release", () => log(`release ${reserved}`)));
    const charged = await step("charge", budget, () => shop.charge(input.card));
    undo.unshift(() => step("refund", () => log(`refund ${charged}`)));
    return await step("ship", budget, ({ attempt }) => {
      log(`try ${attempt} to ship`);
      return shop.ship();
    });
  } catch (thrown) {
    for (const one of undo) await one();
    return { sold: false, why: (thrown as Error).message };
  }
});
