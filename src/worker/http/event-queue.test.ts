// The form of the requests with events: it follows what the node has shown that it knows. Virtual time; the node is the test.
import { expect, test } from "vitest";
import type { EventsAnswer } from "../../protocol/worker-wire.ts";
import { SeededRandom } from "../../std/random.ts";
import { VirtualClock } from "../../testing/virtual-clock.ts";
import { EventQueue } from "./event-queue.ts";
import type { Called } from "./server-link.ts";
import type { SpooledEvent } from "./spool.ts";

test("tokens are inside of events after a brief answer, and in a map again after a refusal", async () => {
  const clock = new VirtualClock();
  const bodies: string[] = [];
  const settled: string[] = [];
  const refused = { kind: "refused", status: 422, code: "unknown_field", message: "token" } as const;
  const answers: Called<EventsAnswer>[] = [
    { kind: "answered", value: { stored: {}, verdicts: {}, rest: "accepted" } },
    refused,
    { kind: "answered", value: { stored: { b: 1 }, verdicts: { b: "accepted" } } },
  ];
  const queue = new EventQueue<SpooledEvent>({
    clock,
    random: new SeededRandom(1),
    post: async (body) => {
      bodies.push(body);
      return answers.shift() ?? { kind: "unsent" };
    },
    onSettled: (list) => settled.push(...list.map(({ entry, verdict }) => `${entry.attempt} ${verdict}`)),
    onDropped: (attempt) => settled.push(`${attempt} dropped`),
    onMoved: () => {},
    onBug: (thrown) => {
      throw thrown;
    },
  });
  const event = (attempt: string): SpooledEvent => ({
    ...{ attempt, token: `t-${attempt}`, n: 1, isReceipt: true },
    json: `{"attempt":"${attempt}","n":1,"kind":"started"}`,
  });
  queue.add([event("a")]);
  await clock.settle();
  queue.add([event("b")]);
  await clock.advance(10_000);
  expect(bodies.map((body) => (JSON.parse(body) as { tokens: object }).tokens)).toEqual([
    { a: "t-a" },
    {},
    { b: "t-b" },
  ]);
  expect(bodies[1]).toContain('{"token":"t-b","attempt":"b","n":1');
  expect(settled).toEqual(["a accepted", "b accepted"]);
});
