// Post-operations through the driver: whatever a performer does, the try ends, and the node hears of it once.
import { expect, test } from "vitest";
import { VirtualClock } from "../../testing/virtual-clock.ts";
import type { Input } from "../io.ts";
import { PostOpRunner } from "./post-op-runner.ts";
import type { PostOps, PostOpTask } from "./post-ops.ts";

const TASK = {
  id: "e1/a/1/a/0/broadcast/0",
  execution: "e1",
  attempt: 2,
  plan: { timeoutMs: 1_000 },
} as unknown as PostOpTask;

function setUp(perform: PostOps["perform"] | null): {
  clock: VirtualClock;
  runner: PostOpRunner;
  heard: Extract<Input, { kind: "performed" }>[];
} {
  const clock = new VirtualClock();
  const heard: Extract<Input, { kind: "performed" }>[] = [];
  const runner = new PostOpRunner({ clock, ...(perform === null ? {} : { postOps: { perform } }) }, (one) =>
    heard.push(one),
  );
  return { clock, runner, heard };
}

test("the outcome is told with the try that it is of", async () => {
  const { clock, runner, heard } = setUp(async () => ({ kind: "done" }));
  runner.run(TASK);
  await clock.settle();
  expect(heard).toEqual([
    { kind: "performed", execution: "e1", op: TASK.id, attempt: 2, outcome: { kind: "done" } },
  ]);
  expect(runner.isBusy).toBe(false);
});

test.each<[string, PostOps["perform"], string]>([
  [
    "throws at once",
    () => {
      throw new TypeError("no");
    },
    "no",
  ],
  [
    "throws later",
    async () => {
      throw new Error("later");
    },
    "later",
  ],
  [
    "throws no error",
    () => Promise.reject("text"),
    "the performer of post-operations threw something that is not an Error",
  ],
])("a performer that %s has failed", async (_, perform, message) => {
  const { clock, runner, heard } = setUp(perform);
  runner.run(TASK);
  await clock.settle();
  expect(heard).toMatchObject([{ outcome: { kind: "failed", error: { message } } }]);
});

test("one that does not end in its time has failed and is told to stop; what it says then is not heard", async () => {
  let finish: () => void = () => {};
  let isAborted = false;
  const { clock, runner, heard } = setUp(
    (_, signal) =>
      new Promise((resolve) => {
        signal.addEventListener("abort", () => (isAborted = true));
        finish = () => resolve({ kind: "done" });
      }),
  );
  runner.run(TASK);
  await clock.advance(5_999);
  expect(heard).toEqual([]);
  await clock.advance(2);
  expect(heard).toMatchObject([{ outcome: { kind: "failed", error: { name: "Timeout" } } }]);
  expect(isAborted).toBe(true);
  finish();
  await clock.settle();
  expect(heard).toHaveLength(1);
});

test("after a stop nothing is told, and what is under way is told to stop", async () => {
  let isAborted = false;
  const { clock, runner, heard } = setUp(
    (_, signal) =>
      new Promise((resolve) =>
        signal.addEventListener("abort", () => {
          isAborted = true;
          resolve({ kind: "done" });
        }),
      ),
  );
  runner.run(TASK);
  runner.stop();
  await clock.settle();
  expect(isAborted).toBe(true);
  expect(heard).toEqual([]);
});

test("without a performer nothing begins", async () => {
  const { runner } = setUp(null);
  runner.run(TASK);
  expect(runner.isBusy).toBe(false);
  await runner.idle(1_000);
});

test("whoever waits for the end of all hears of it, or of the end of its patience", async () => {
  const { clock, runner } = setUp(() => new Promise(() => {}));
  runner.run(TASK);
  let isOver = false;
  const idle = runner.idle(100).then(() => {
    isOver = true;
  });
  await clock.advance(99);
  expect(isOver).toBe(false);
  await clock.advance(1);
  await idle;
  expect(runner.isBusy).toBe(true);
});
