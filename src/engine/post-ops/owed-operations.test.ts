// Post-operations are given out after the commit that owes them, bounded, in order, and again after whatever made their end
// unknown.
import { describe, expect, test } from "vitest";
import {
  first,
  last,
  PERSIST,
  RESULT,
  running,
  SLOW,
  shown,
  TOPICS,
  tell,
} from "../../../test/fixtures/engine/command-node-fixture.ts";
import { type Attempt, NodeFixture } from "../../../test/fixtures/engine/node-fixture.ts";
import { command } from "../../../test/fixtures/kernel/kernel-run-fixture.ts";
import type { PostOpRef } from "../../kernel/event.ts";
import type { PostOpTask } from "./post-ops.ts";

test("nothing is performed before the commit that owes it", () => {
  const fixture = running([command("a", PERSIST), command("b")]);
  fixture.holdsCommits = true;
  fixture.receipt(first(fixture), RESULT);
  fixture.settle();
  expect(fixture.postOps).toEqual([]);
  fixture.commit();
  fixture.settle();
  expect(fixture.postOps).toMatchObject([
    {
      op: "persistence",
      id: "e1/a/1/a/0/persistence/0",
      attempt: 1,
      project: "default",
      plan: { store: "s", key: "k", timeoutMs: 30_000 },
    },
  ]);
});

test("persistence, then broadcasts in order, then the next command", () => {
  const fixture = running([command("a", { ...PERSIST, ...tell(2) }), command("b")]);
  fixture.receipt(first(fixture), RESULT);
  fixture.settle();
  expect(shown(fixture)).toEqual(["persistence 0#1"]);
  expect(fixture.attempts()).toHaveLength(1);
  fixture.performed(last(fixture));
  fixture.settle();
  const order = fixture.outputs
    .filter(({ kind }) => kind === "perform" || kind === "grant")
    .map((output) => (output.kind === "perform" ? output.task.op : output.kind));
  expect(order).toEqual(["grant", "persistence", "broadcast", "broadcast", "grant"]);
  const payload = fixture.journal("e1").find(({ seq }) => seq === last(fixture).receipt)?.event;
  expect(payload).toMatchObject({ kind: "command.receipted", result: '{"n":1}' });
});

test("a try that failed is made again when its time has come, with the same id", () => {
  const fixture = running([command("a", PERSIST)]);
  fixture.receipt(first(fixture), RESULT);
  fixture.settle();
  fixture.performed(last(fixture), "down");
  fixture.settle();
  expect(shown(fixture)).toEqual(["persistence 0#1"]);
  expect(fixture.inspect("e1").why).toMatch(/^"a": persistence to s is tried again in .*: down\.$/);
  fixture.sleep(10_000);
  expect(shown(fixture)).toEqual(["persistence 0#1", "persistence 0#2"]);
  expect(new Set(fixture.postOps.map(({ id }) => id)).size).toBe(1);
  fixture.performed(last(fixture), "down for good");
  fixture.settle();
  expect(fixture.status("e1")).toBe("failed");
  expect(fixture.tables.listDeadLetters({ execution: "e1" }, { before: null, max: 9 })).toHaveLength(1);
  fixture.control("retry", "e1");
  fixture.settle();
  expect(shown(fixture).at(-1)).toBe("persistence 0#1");
  expect(fixture.attempts()).toHaveLength(1);
  expect(fixture.tables.listDeadLetters({ execution: "e1" }, { before: null, max: 9 })).toEqual([]);
  fixture.performed(last(fixture));
  fixture.settle();
  expect(fixture.status("e1")).toBe("done");
});

describe("what is owed is found again", () => {
  test.each([
    ["after the process died", (fixture: NodeFixture) => fixture.restart()],
    ["after a clean end", (fixture: NodeFixture) => fixture.restart({ clean: true })],
  ])("%s, persistence and broadcasts alike, also of an execution that has ended", (_, restart) => {
    const fixture = running([command("a", { ...PERSIST, ...tell(2) })]);
    fixture.receipt(first(fixture), RESULT);
    fixture.settle();
    restart(fixture);
    fixture.sleep(0);
    expect(shown(fixture)).toEqual(["persistence 0#1"]);
    fixture.performed(last(fixture));
    fixture.settle();
    expect(fixture.status("e1")).toBe("done");
    fixture.performed(fixture.postOps[1] as PostOpTask);
    fixture.settle();
    restart(fixture);
    fixture.sleep(0);
    expect(shown(fixture)).toEqual(["broadcast 1#1"]);
    fixture.performed(last(fixture), "busy");
    fixture.settle();
    restart(fixture);
    fixture.sleep(9_000_000);
    expect(shown(fixture)).toEqual(["broadcast 1#2"]);
    fixture.performed(last(fixture));
    fixture.settle();
    restart(fixture);
    fixture.sleep(9_000_000);
    expect(fixture.postOps).toEqual([]);
    expect(fixture.tables.scanTimers({ until: Number.MAX_SAFE_INTEGER, max: 9, partitions: null })).toEqual(
      [],
    );
    expect(fixture.node.residentCount).toBe(0);
  });

  test("though nobody serves what comes next", () => {
    const fixture = running([command("a", { ...PERSIST, ...tell(1) }), command("c")]);
    fixture.receipt(first(fixture), RESULT);
    fixture.settle();
    fixture.performed(last(fixture));
    fixture.settle();
    fixture.restart();
    fixture.sleep(0);
    expect(shown(fixture)).toEqual(["broadcast 0#1"]);
  });

  test("after a commit of unknown outcome, once; the end of its try is not forgotten", () => {
    const fixture = running([command("a", PERSIST), command("b")]);
    fixture.receipt(first(fixture), RESULT);
    fixture.settle();
    fixture.holdsCommits = true;
    fixture.performed(last(fixture));
    fixture.settle();
    fixture.commitUnheard();
    fixture.holdsCommits = false;
    fixture.settle();
    expect(shown(fixture)).toEqual(["persistence 0#1"]);
    expect(fixture.kinds("e1").filter((kind) => kind === "postop.done")).toHaveLength(1);
    expect(fixture.attempts().map(({ grant }) => grant.phase)).toEqual(["a", "b"]);
  });

  test("after a commit that was not written", () => {
    const fixture = running([command("a", PERSIST), command("b")]);
    fixture.holdsCommits = true;
    fixture.receipt(first(fixture), RESULT);
    fixture.settle();
    fixture.loseCommit();
    fixture.holdsCommits = false;
    fixture.settle();
    expect(shown(fixture)).toEqual(["persistence 0#1"]);
  });
});

test("at most so many are under way, of the node and of one execution; the rest follow as these end", () => {
  const fixture = new NodeFixture({ postOpsMax: 10, postOpsEach: 2 });
  fixture.join("w1", TOPICS);
  const plan = fixture.plan([command("a", tell(4))]);
  for (const id of ["e1", "e2", "e3", "e4"]) fixture.start(plan, id);
  fixture.work(() => RESULT);
  expect(fixture.postOps.map(({ execution }) => execution)).toHaveLength(5);
  const seen = new Set<string>();
  for (let i = 0; i < fixture.postOps.length; i++) {
    const task = fixture.postOps[i] as PostOpTask;
    seen.add(task.id);
    fixture.performed(task);
    fixture.settle();
    expect(fixture.postOps.length - i - 1).toBeLessThanOrEqual(5);
  }
  expect(seen.size).toBe(16);
  expect(fixture.postOps).toHaveLength(16);
  expect(fixture.node.residentCount).toBe(0);
});

test("a target that hangs holds up neither what is persisted nor what goes to others", () => {
  const hanging = (i: number) => ({
    cmd_result_broadcasts: [{ url: `http://hangs/${i}`, retry: SLOW }],
    ...PERSIST,
  });
  const fixture = new NodeFixture({ postOpsMax: 8, postOpsEach: 2 });
  fixture.join("w1", TOPICS);
  const performAll = (isWanted: (task: PostOpTask) => boolean) => {
    for (let i = 0; i < fixture.postOps.length; i++) {
      const task = fixture.postOps[i] as PostOpTask;
      if (isWanted(task)) fixture.performed(task);
      fixture.settle();
    }
  };
  const goesOn = (task: PostOpTask) => !("url" in task.plan) || !task.plan.url.includes("hangs");
  for (let i = 0; i < 30; i++) fixture.start(fixture.plan([command("a", hanging(i))]), `h${i}`);
  fixture.work(() => RESULT);
  performAll(goesOn);
  for (let i = 0; i < 30; i++) expect(fixture.status(`h${i}`)).toBe("done");
  const open = fixture.postOps.filter((task) => !goesOn(task));
  expect(open).toHaveLength(4);
  for (let i = 0; i < 30; i++)
    fixture.start(fixture.plan([command("a", { ...tell(2), ...PERSIST })]), `o${i}`);
  fixture.work(() => RESULT);
  performAll((task) => goesOn(task) && task.execution.startsWith("o"));
  const told = fixture.postOps.filter(({ op, execution }) => op === "broadcast" && execution.startsWith("o"));
  expect(told).toHaveLength(60);
  performAll(() => true);
  expect(fixture.postOps.filter((task) => !goesOn(task))).toHaveLength(30);
});

test("results that wait to be persisted keep further commands of the handler back", () => {
  const tasks = Array.from({ length: 200 }, (_, i) => i);
  const fixture = new NodeFixture({ postOpsEach: 1 });
  fixture.join("w1", TOPICS, { capacity: 10 });
  fixture.start(fixture.plan([command("a", PERSIST, { tasks })]), "e1");
  expect(fixture.work(() => RESULT).length).toBeLessThan(64 + 10 + 1);
  for (let i = 0; i < fixture.postOps.length; i++) {
    fixture.performed(fixture.postOps[i] as PostOpTask);
    fixture.work(() => RESULT);
  }
  expect(fixture.status("e1")).toBe("done");
  expect(fixture.attempts()).toHaveLength(200);
});

test("a broadcast that is given up is a dead letter, which a retry of the execution leaves alone", () => {
  const once = { cmd_result_broadcasts: [{ url: "http://x", retry: { attempts: 1 } }] };
  const fixture = running([
    {
      name: "a",
      handlers: {
        ...(command("a", once) as { handlers: object }).handlers,
        ...(command("b", {}, { retry: { attempts: 1 } }) as { handlers: object }).handlers,
      },
    },
  ]);
  const letters = () => fixture.tables.listDeadLetters({ execution: "e1" }, { before: null, max: 9 });
  const [a, b] = ["a", "b"].map(
    (name) => fixture.attempts().find(({ grant }) => grant.handler === name) as Attempt,
  );
  fixture.receipt(a as Attempt, RESULT);
  fixture.settle();
  fixture.performed(last(fixture), "gone");
  fixture.settle();
  const [given] = fixture.journal("e1").filter(({ event }) => event.kind === "postop.failed");
  expect(letters()).toMatchObject([{ seq: given?.seq, tasks: [0] }]);
  fixture.receipt(b as Attempt, { status: "failed", payload: "{}" });
  fixture.settle();
  expect(fixture.status("e1")).toBe("failed");
  expect(letters()).toHaveLength(2);
  fixture.control("retry", "e1");
  fixture.settle();
  expect(letters()).toMatchObject([{ seq: given?.seq }]);
});

test.each(["one step", "two"])(
  "the dead letter of a broadcast that is retried right after chosen tasks stays, in %s",
  (steps) => {
    const once = { cmd_result_broadcasts: [{ url: "http://x", retry: { attempts: 1 } }] };
    const handlers = {
      ...(command("a", once) as { handlers: object }).handlers,
      ...(command("b", {}, { retry: { attempts: 1 } }) as { handlers: object }).handlers,
    };
    const fixture = running([{ name: "a", handlers }]);
    const letters = () => fixture.tables.listDeadLetters({ execution: "e1" }, { before: null, max: 9 });
    const of = (name: string) => fixture.attempts().find(({ grant }) => grant.handler === name) as Attempt;
    fixture.receipt(of("b"), { status: "failed", payload: "{}" });
    fixture.settle();
    fixture.receipt(of("a"), RESULT);
    fixture.settle();
    fixture.performed(last(fixture), "gone");
    fixture.settle();
    expect(letters()).toHaveLength(2);
    const given = fixture.journal("e1").find(({ event }) => event.kind === "postop.failed");
    const tasks = { phase: "a", visit: 1, handler: "b", numbers: [0] };
    fixture.request({
      execution: "e1",
      message: { kind: "retry", id: "r1", by: "ann", reason: null, tasks },
    });
    if (steps === "two") fixture.settle();
    const failed = given?.event as PostOpRef;
    const { phase, visit, handler, task, step, op, index, receipt } = failed;
    const ref = { phase, visit, handler, task, step, op, index, receipt };
    fixture.request({ execution: "e1", message: { kind: "postop.retry", id: "r2", by: "ann", op: ref } });
    fixture.settle();
    const kinds = fixture.journal("e1").map(({ event }) => event.kind);
    expect(kinds.slice(kinds.indexOf("tasks.retried"))).toContain("postop.retried");
    expect(letters()).toMatchObject([{ seq: given?.seq, tasks: [0] }]);
  },
);

test("a cancel waits for a persistence that is owed, and says so", () => {
  const fixture = running([command("a", PERSIST)]);
  fixture.receipt(first(fixture), RESULT);
  fixture.settle();
  fixture.control("cancel", "e1");
  fixture.settle();
  expect(fixture.status("e1")).toBe("cancelling");
  expect(fixture.inspect("e1").why).toContain("1 owed post-operation must still end");
  fixture.performed(last(fixture));
  fixture.settle();
  expect(fixture.status("e1")).toBe("cancelled");
});

test("an ended execution that owes something is not purged", () => {
  const fixture = running([command("a", tell(1))]);
  fixture.receipt(first(fixture), RESULT);
  fixture.settle();
  const ended = () => fixture.tables.listEnded({ finishedBefore: Number.MAX_SAFE_INTEGER, max: 9 });
  fixture.input({ kind: "purge", ids: ["e1"] });
  fixture.settle();
  expect(ended()).toEqual([]);
  expect(fixture.status("e1")).toBe("done");
  expect(fixture.inspect("e1").why).toBe("It is done; broadcast to http://x/0 is under way.");
  fixture.performed(last(fixture));
  fixture.settle();
  expect(ended()).toEqual(["e1"]);
});

test("what was owed is not performed when the partition was lost before it could be; whoever has it next does", () => {
  const fixture = running([command("a", PERSIST)]);
  fixture.holdsCommits = true;
  fixture.receipt(first(fixture), RESULT);
  fixture.settle();
  fixture.commit();
  const [own] = fixture.tables.open().owned;
  fixture.input({ kind: "lost", partitions: [0] });
  fixture.settle();
  expect(fixture.postOps).toEqual([]);
  // The same process takes the partition again.
  fixture.holdsCommits = false;
  const left = { leases: [], quotas: new Map(), declared: {} };
  fixture.input({ kind: "taken", owned: own === undefined ? [] : [own], left });
  fixture.settle();
  expect(shown(fixture)).toEqual(["persistence 0#1"]);
});
