// Beats of a worker: which attempts they name, and what becomes of the answers. Virtual time; the server is the test.
import { expect, test } from "vitest";
import { heldAttempts, idOf } from "../../../test/fixtures/workers/worker-fixture.ts";
import type { HeartbeatAnswer, HeartbeatRequest } from "../../protocol/worker-wire.ts";
import { VirtualClock } from "../../testing/virtual-clock.ts";
import { Heartbeats } from "./heartbeats.ts";
import type { Called } from "./server-link.ts";

function setUp(tasks: number, answer: (request: HeartbeatRequest) => Called<HeartbeatAnswer>) {
  const clock = new VirtualClock();
  const held = heldAttempts(tasks, { n: 1, hasStarted: true });
  const sent: HeartbeatRequest[] = [];
  const words: string[] = [];
  const homes: string[] = [];
  const beats = new Heartbeats({
    clock,
    held,
    node: "a",
    onHome: ({ id }, isHere) => void homes.push(`${id} ${isHere}`),
    post: async (body) => {
      const request = JSON.parse(body) as HeartbeatRequest;
      sent.push(request);
      return answer(request);
    },
    onStop: (ids, why) => words.push(...ids.map((id) => `${why} ${id}`)),
    onBug: (thrown) => {
      throw thrown;
    },
  });
  return { clock, held, sent, words, homes, beats };
}

test("each attempt has a word of its own: those that are lost are stopped, the others go on", async () => {
  const value: HeartbeatAnswer = { [idOf(0)]: "lost", [idOf(1)]: "continue", [idOf(2)]: "cancel" };
  const { clock, sent, words, beats } = setUp(3, () => ({ kind: "answered", value }));
  beats.beat();
  await clock.settle();
  expect(sent.map(({ tokens }) => Object.keys(tokens))).toEqual([[idOf(0), idOf(1), idOf(2)]]);
  expect(words).toEqual([`cancel ${idOf(2)}`, `lost ${idOf(0)}`]);
});

test("one whose receipt is on its way is not stopped any more", async () => {
  const { clock, held, words, beats } = setUp(1, () => ({ kind: "answered", value: { [idOf(0)]: "lost" } }));
  const attempt = held.get(idOf(0));
  if (attempt !== undefined) held.end(attempt);
  beats.beat();
  await clock.settle();
  expect(words).toEqual([]);
});

test("what is refused as a whole stops nothing, and the next beat comes in time", async () => {
  const refused: Called<HeartbeatAnswer> = {
    kind: "refused",
    status: 422,
    code: "invalid_input",
    message: "no",
  };
  const { clock, sent, words, beats } = setUp(1, () => refused);
  beats.beat();
  await clock.settle();
  await clock.advance(10_000);
  expect(sent).toHaveLength(2);
  expect(words).toEqual([]);
});

test("an attempt is beaten where it is at home; one without a home everywhere, and the answer says where it is", async () => {
  const value: HeartbeatAnswer = { [idOf(0)]: "not_owner", [idOf(1)]: "continue" };
  const { clock, held, sent, homes, words, beats } = setUp(3, () => ({ kind: "answered", value }));
  const [, second, third] = [0, 1, 2].map((task) => held.get(idOf(task)));
  if (second === undefined || third === undefined) throw new Error("they are held");
  held.move(second, null);
  held.move(third, "b");
  beats.beat();
  await clock.settle();
  expect(sent.map(({ tokens }) => Object.keys(tokens))).toEqual([[idOf(0), idOf(1)]]);
  expect(homes).toEqual([`${idOf(0)} false`, `${idOf(1)} true`]);
  expect(words).toEqual([]);
});

test("a beat that is wanted while one is under way follows it", async () => {
  const { clock, sent, beats } = setUp(1, () => ({ kind: "answered", value: {} }));
  beats.beat();
  beats.beat();
  await clock.settle();
  expect(sent).toHaveLength(2);
});
