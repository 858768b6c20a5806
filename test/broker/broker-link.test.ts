import { expect, test } from "vitest";
import { BrokerLink } from "../../src/broker/broker-link.ts";
import { systemClock } from "../../src/std/clock.ts";
import { SeededRandom } from "../../src/std/random.ts";
import { until } from "../faults/until.ts";
import { openTestBroker } from "./rabbitmq-server.ts";

test("a session that breaks while it comes up is told as gone, each time, before the next one comes", async () => {
  const broker = await openTestBroker();
  const told: string[] = [];
  const link = new BrokerLink({
    url: broker.url,
    name: "test",
    clock: systemClock(),
    random: new SeededRandom(1),
    answerMs: 20_000,
    prefetch: 1,
    onUp: async (session) => {
      told.push("up");
      if (told.filter((word) => word === "up").length < 3)
        await session.with((ch) => ch.checkQueue("not there"));
    },
    onDown: () => void told.push("down"),
    onBlocked: () => {},
    onFault: () => {},
  });
  await link.open();
  await until("it is up", () => link.state === "up");
  expect(told.filter((word, i) => word !== told[i - 1])).toEqual(["up", "down", "up", "down", "up"]);
  await link.close();
  expect(link.state).toBe("closed");
  await broker.remove();
}, 180_000);
