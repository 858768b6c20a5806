import type { Channel } from "amqplib";
import { expect, test } from "vitest";
import { dropRepeatedCancelReplies } from "./cancel-replies.ts";

const CANCEL_OK = 3_932_191;
const CONSUME_OK = 3_932_181;

test("the second answer to a cancel is dropped, and no other frame is", () => {
  const got: unknown[] = [];
  const channel = { accept: (frame: unknown) => void got.push(frame) };
  dropRepeatedCancelReplies(channel as unknown as Channel);
  const reply = (id: number, consumerTag: string) => ({ id, fields: { consumerTag } });
  const frames = [
    reply(CONSUME_OK, "a"),
    reply(CONSUME_OK, "b"),
    reply(CANCEL_OK, "a"),
    reply(CANCEL_OK, "a"),
    reply(CANCEL_OK, "b"),
    { id: 60 },
    reply(CANCEL_OK, "a"),
  ];
  for (const frame of frames) channel.accept(frame);
  expect(got).toEqual([frames[0], frames[1], frames[2], frames[4], frames[5]]);
});
