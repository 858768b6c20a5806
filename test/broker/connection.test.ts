import { expect, test } from "vitest";
import { BrokerConnection } from "../../src/net/amqp/connection.ts";
import { systemClock } from "../../src/std/clock.ts";
import { SeededRandom } from "../../src/std/random.ts";
import { openTestBroker } from "../fixtures/broker/rabbitmq-server-fixture.ts";
import { until } from "../fixtures/until.ts";

test("a session that fails while it is set up is reported as down before the next one is set up", async () => {
  const broker = await openTestBroker();
  const told: string[] = [];
  const connection = new BrokerConnection({
    url: broker.url,
    name: "test",
    clock: systemClock(),
    random: new SeededRandom(1),
    answerMs: 20_000,
    prefetch: 1,
    onUp: async (session) => {
      told.push("up");
      if (told.filter((word) => word === "up").length < 3)
        await session.withChannel((ch) => ch.checkQueue("not there"));
    },
    onDown: () => void told.push("down"),
    onBlocked: () => {},
    onFault: () => {},
  });
  await connection.open();
  await until("it is up", () => connection.state === "up");
  expect(told.filter((word, i) => word !== told[i - 1])).toEqual(["up", "down", "up", "down", "up"]);
  await connection.close();
  expect(connection.state).toBe("closed");
  await broker.remove();
}, 180_000);
