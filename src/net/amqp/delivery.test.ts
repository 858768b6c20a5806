import type { Channel, ConsumeMessage } from "amqplib";
import { expect, test } from "vitest";
import { Delivery, Lane } from "./delivery.ts";

/** A channel that records its frames, and deliveries of it with the tags 1, 2, ... */
function deliver(count: number) {
  const frames: string[] = [];
  const ends: (() => void)[] = [];
  const channel = {
    on: (_: string, end: () => void) => ends.push(end),
    ack: ({ fields }: ConsumeMessage, upTo = false) =>
      frames.push(`ack ${upTo ? "up to " : ""}${fields.deliveryTag}`),
    nack: ({ fields }: ConsumeMessage) => frames.push(`nack ${fields.deliveryTag}`),
  };
  const lane = new Lane(channel as unknown as Channel);
  const deliveries = Array.from(
    { length: count },
    (_, i) => new Delivery({ fields: { deliveryTag: i + 1 } } as ConsumeMessage, "q", lane),
  );
  const of = (tag: number) => deliveries[tag - 1] as Delivery;
  const turn = (run: () => void): Promise<void> => {
    run();
    return Promise.resolve();
  };
  return { frames, lane, of, turn, close: () => ends.forEach((end) => end()) };
}

test("the acknowledgements of a turn are one frame", async () => {
  const { frames, of, turn } = deliver(3);
  await turn(() => [2, 3, 1].forEach((tag) => of(tag).ack()));
  expect(frames).toEqual(["ack up to 3"]);
});

test("a delivery that is still open is not acknowledged with later ones", async () => {
  const { frames, of, turn } = deliver(6);
  await turn(() => [1, 2, 4, 6].forEach((tag) => of(tag).ack()));
  expect(frames.splice(0)).toEqual(["ack 4", "ack 6", "ack up to 2"]);
  await turn(() => of(5).ack());
  expect(frames.splice(0)).toEqual(["ack 5"]);
  await turn(() => of(3).ack());
  expect(frames).toEqual(["ack up to 3"]);
});

test("a returned delivery is returned before later ones are acknowledged together", async () => {
  const { frames, of, turn } = deliver(4);
  await turn(() => {
    of(1).ack();
    of(3).ack();
    of(2).nack();
  });
  expect(frames).toEqual(["nack 2", "ack up to 3"]);
});

test("a channel that is gone gets no acknowledgement", async () => {
  const { frames, of, turn, close } = deliver(2);
  await turn(() => {
    of(1).ack();
    close();
    of(2).ack();
  });
  expect(frames).toEqual([]);
  expect(of(1).isOpen).toBe(false);
});
