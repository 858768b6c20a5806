// The order in which broadcasts begin: those of one receipt one after another, whatever room their targets have.
import { expect, test } from "vitest";
import { NodeFixture } from "../../../test/fixtures/engine/node-fixture.ts";
import { command } from "../../../test/fixtures/kernel/kernel-run-fixture.ts";
import type { PostOpTask } from "./post-ops.ts";

const RESULT = { payload: '{"n":1}' };
const tell = (...hosts: string[]) => ({
  cmd_result_broadcasts: hosts.map((host) => ({
    url: `http://${host}/`,
    retry: { attempts: 3, min: "10s", max: "10s", backoff: "constant" },
  })),
});

/** With two places, one target has one of them at most while the other is free. */
function setUp(settings = { postOpsMax: 2, postOpsEach: 2 }): NodeFixture {
  const made = new NodeFixture(settings);
  made.join("w1", ["topic:CMD_A"]);
  return made;
}
function run(on: NodeFixture, id: string, ...hosts: string[]): void {
  on.start(on.plan([command("a", tell(...hosts))]), id);
  on.work(() => RESULT);
}
const begun = (on: NodeFixture) =>
  on.postOps.map(({ execution, plan, attempt }) => {
    const host = "url" in plan ? new URL(plan.url).host : plan.store;
    return `${execution} ${host}#${attempt}`;
  });
function end(on: NodeFixture, which: string, error?: string): void {
  on.performed(on.postOps[begun(on).lastIndexOf(which)] as PostOpTask, error);
  on.settle();
}

test("one whose target has room waits for the one before it, whose target has none", () => {
  const on = setUp();
  run(on, "e1", "x");
  run(on, "e2", "x", "y");
  expect(begun(on)).toEqual(["e1 x#1"]);
  end(on, "e1 x#1");
  expect(begun(on)).toEqual(["e1 x#1", "e2 x#1", "e2 y#1"]);
});

test("nothing of another execution waits for it", () => {
  const on = setUp();
  run(on, "e1", "x");
  run(on, "e2", "x", "y");
  run(on, "e3", "y");
  expect(begun(on)).toEqual(["e1 x#1", "e3 y#1"]);
});

test("nor what the same execution owes for another receipt", () => {
  const on = setUp({ postOpsMax: 4, postOpsEach: 4 });
  run(on, "e0", "x");
  run(on, "e1", "x");
  on.join("w1", ["topic:CMD_A", "topic:CMD_B"]);
  const [a, b] = [command("a", tell("x", "y")), command("b", tell("y"))] as { handlers: object }[];
  on.start(on.plan([{ name: "a", handlers: { ...a?.handlers, ...b?.handlers } }]), "e2");
  on.work(() => RESULT);
  expect(begun(on)).toEqual(["e0 x#1", "e1 x#1", "e2 y#1"]);
  end(on, "e2 y#1");
  expect(begun(on)).toHaveLength(3);
  end(on, "e0 x#1");
  expect(begun(on).slice(3)).toEqual(["e2 x#1", "e2 y#1"]);
});

test("one that has begun and failed holds nothing up, though it waits for its time or for room", () => {
  const on = setUp({ postOpsMax: 2, postOpsEach: 1 });
  run(on, "e1", "x", "y", "z");
  end(on, "e1 x#1", "busy");
  expect(begun(on)).toEqual(["e1 x#1", "e1 y#1"]);
  run(on, "e2", "x");
  expect(begun(on).at(-1)).toBe("e2 x#1");
  on.sleep(10_000);
  end(on, "e1 y#1");
  // There is no place for the second try of the first broadcast, but there is one for the last broadcast.
  expect(begun(on).slice(3)).toEqual(["e1 z#1"]);
  end(on, "e2 x#1");
  end(on, "e1 z#1");
  expect(begun(on).slice(4)).toEqual(["e1 x#2"]);
});
