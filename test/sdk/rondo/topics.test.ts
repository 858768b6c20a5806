// Topics served in process: commands as data, done by code, receipted like any other.
import { Fatal, topic } from "rondo";
import { expect, test } from "vitest";
import { Engine } from "../../../src/engine/driver.ts";
import type { PostOps, PostOpTask } from "../../../src/engine/post-ops/post-ops.ts";
import { Rondo } from "../../../src/rondo/rondo.ts";
import type { AnyWorkflow } from "../../../src/sdk/workflow.ts";
import { systemClock } from "../../../src/std/clock.ts";
import { SeededRandom } from "../../../src/std/random.ts";
import { MemoryStore } from "../../../src/store/memory/memory-store.ts";
import { all, failure, open } from "../../fixtures/sdk/open-rondo-fixture.ts";

/** A workflow that is data: one command per phase. */
function commands(...steps: readonly [topic: string, cmd: object, handler?: object][]): AnyWorkflow {
  const phases = steps.map(([name, command, handler], i) => ({
    name: `step-${i}`,
    handlers: { [`step-${i}`]: { command, topic: name, ...handler } },
  }));
  return {
    name: "commands",
    definition: { name: "commands", phases },
    handlers: [],
  };
}

test("commands go one after another to the code that serves their topics, with earlier results", async () => {
  const seen: unknown[] = [];
  const rondo = await open([]);
  rondo.serve(
    topic<{ n: number }>("CMD_A", ({ cmd, attempt, idempotencyKey, log, execution }) => {
      log("a");
      seen.push([cmd.cmd_type, attempt, idempotencyKey === `${execution}/step-0/1/step-0/0`]);
      return { n: cmd.cmd_data.n + 1 };
    }),
    topic("CMD_B", async ({ cmd }) => {
      seen.push(cmd.cmd_data);
      expect(Object.keys(cmd.cmd_metadata).sort()).toEqual(["cmd_hash", "workflow_hash"]);
    }),
  );
  const wf = commands(
    ["CMD_A", { cmd_type: "A", cmd_data: { n: 1 } }],
    ["CMD_B", { cmd_type: "B", cmd_data: { n: "${steps[0].cmd_result.n}" } }],
  );
  const execution = await rondo.start(wf, null);
  await execution.result();
  expect(seen).toEqual([["A", 1, true], { n: 2 }]);
  const events = (await all(execution.events())).filter(({ kind }) => kind === "workflow.command.receipted");
  expect(events.map(({ cmd_result }) => cmd_result)).toEqual([{ n: 2 }, {}]);
  expect((await all(execution.logs())).map(({ text }) => text)).toEqual(["a"]);
});

test("what the code throws is the error of the command: tried again by policy, then the workflow fails", async () => {
  let tries = 0;
  const rondo = await open([]);
  rondo.serve(
    topic("CMD_A", () => {
      tries++;
      throw new Error("busy");
    }),
    topic("CMD_B", () => {
      throw new Fatal("never");
    }),
  );
  const retry = { attempts: 3, min: 0, max: 0 };
  const failed = await rondo.start(commands(["CMD_A", { cmd_type: "A" }, { retry }]), null);
  expect((await failure(failed.result())).message).toContain("busy");
  expect(tries).toBe(3);
  const fatal = await rondo.start(commands(["CMD_B", { cmd_type: "B" }]), null);
  expect((await failure(fatal.result())).message).toContain("never");
});

test("a command that takes too long is sent again", async () => {
  const rondo = await open([]);
  rondo.serve(
    topic("CMD_A", ({ attempt, signal }) =>
      attempt > 1
        ? { by: attempt }
        : new Promise((_, fail) => signal.addEventListener("abort", () => fail(new Error("aborted")))),
    ),
  );
  const wf = commands(["CMD_A", { cmd_type: "A" }, { timeout: 20, retry: { min: 0, max: 0 } }]);
  const execution = await rondo.start(wf, null);
  await execution.result();
  const events = await all(execution.events());
  expect(events.map(({ kind }) => kind)).toContain("workflow.tasks.retrying");
  expect(events.findLast(({ kind }) => kind === "workflow.command.receipted")).toMatchObject({
    attempt: 2,
    cmd_result: { by: 2 },
  });
});

test("something that is no topic is refused", () => {
  expect(() => topic("a b", () => null)).toThrow('"a b" is not a topic');
  expect(() => topic("A", null as never)).toThrow("the second argument is not a function");
});

test("a close waits for post-operations under way, and what they owe is done", async () => {
  const performed: PostOpTask[] = [];
  const postOps: PostOps = {
    perform: (task) =>
      new Promise((resolve) =>
        setImmediate(() => {
          performed.push(task);
          resolve({ kind: "done" });
        }),
      ),
  };
  const clock = systemClock({ hold: true });
  const store = new MemoryStore();
  const engine = await Engine.open({ store, clock, postOps });
  const rondo = new Rondo({
    engine,
    store,
    clock,
    random: new SeededRandom("topics"),
    capacity: 8,
    onLog: () => {},
    onBug: (thrown) => {
      throw thrown;
    },
  });
  rondo.serve(topic("CMD_A", () => ({ n: 1 })));
  const cmd_post_op = {
    cmd_result_persistence: { target_statestore_name: "s", target_statestore_key: "k" },
    cmd_result_broadcasts: [{ url: "http://x/0" }, { url: "http://x/1" }],
  };
  const wf = commands(["CMD_A", { cmd_type: "A", cmd_metadata: { cmd_post_op } }]);
  await rondo.run(wf, null);
  await rondo.close();
  expect(performed.map(({ op, index }) => `${op} ${index}`)).toEqual([
    "persistence 0",
    "broadcast 0",
    "broadcast 1",
  ]);
});
