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
import type { PostOpTask } from "./post-ops.ts";

test("nothing is performed before the commit that owes it", () => {
  const bench = running([command("a", PERSIST), command("b")]);
  bench.holdsCommits = true;
  bench.receipt(first(bench), RESULT);
  bench.settle();
  expect(bench.errands).toEqual([]);
  bench.commit();
  bench.settle();
  expect(bench.errands).toMatchObject([
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
  const bench = running([command("a", { ...PERSIST, ...tell(2) }), command("b")]);
  bench.receipt(first(bench), RESULT);
  bench.settle();
  expect(shown(bench)).toEqual(["persistence 0#1"]);
  expect(bench.attempts()).toHaveLength(1);
  bench.performed(last(bench));
  bench.settle();
  const order = bench.outputs
    .filter(({ kind }) => kind === "perform" || kind === "grant")
    .map((output) => (output.kind === "perform" ? output.task.op : output.kind));
  expect(order).toEqual(["grant", "persistence", "broadcast", "broadcast", "grant"]);
  const payload = bench.journal("e1").find(({ seq }) => seq === last(bench).receipt)?.event;
  expect(payload).toMatchObject({ kind: "command.receipted", result: '{"n":1}' });
});

test("a try that failed is made again when its time has come, with the same id", () => {
  const bench = running([command("a", PERSIST)]);
  bench.receipt(first(bench), RESULT);
  bench.settle();
  bench.performed(last(bench), "down");
  bench.settle();
  expect(shown(bench)).toEqual(["persistence 0#1"]);
  expect(bench.inspect("e1").why).toMatch(/^"a": persistence to s is tried again in .*: down\.$/);
  bench.sleep(10_000);
  expect(shown(bench)).toEqual(["persistence 0#1", "persistence 0#2"]);
  expect(new Set(bench.errands.map(({ id }) => id)).size).toBe(1);
  bench.performed(last(bench), "down for good");
  bench.settle();
  expect(bench.status("e1")).toBe("failed");
  expect(bench.tables.listDeadLetters({ execution: "e1" }, { before: null, max: 9 })).toHaveLength(1);
  bench.control("retry", "e1");
  bench.settle();
  expect(shown(bench).at(-1)).toBe("persistence 0#1");
  expect(bench.attempts()).toHaveLength(1);
  expect(bench.tables.listDeadLetters({ execution: "e1" }, { before: null, max: 9 })).toEqual([]);
  bench.performed(last(bench));
  bench.settle();
  expect(bench.status("e1")).toBe("done");
});

describe("what is owed is found again", () => {
  test.each([
    ["after the process died", (bench: NodeFixture) => bench.restart()],
    ["after a clean end", (bench: NodeFixture) => bench.restart({ clean: true })],
  ])("%s, persistence and broadcasts alike, also of an execution that has ended", (_, restart) => {
    const bench = running([command("a", { ...PERSIST, ...tell(2) })]);
    bench.receipt(first(bench), RESULT);
    bench.settle();
    restart(bench);
    bench.sleep(0);
    expect(shown(bench)).toEqual(["persistence 0#1"]);
    bench.performed(last(bench));
    bench.settle();
    expect(bench.status("e1")).toBe("done");
    bench.performed(bench.errands[1] as PostOpTask);
    bench.settle();
    restart(bench);
    bench.sleep(0);
    expect(shown(bench)).toEqual(["broadcast 1#1"]);
    bench.performed(last(bench), "busy");
    bench.settle();
    restart(bench);
    bench.sleep(9_000_000);
    expect(shown(bench)).toEqual(["broadcast 1#2"]);
    bench.performed(last(bench));
    bench.settle();
    restart(bench);
    bench.sleep(9_000_000);
    expect(bench.errands).toEqual([]);
    expect(bench.tables.scanTimers({ until: Number.MAX_SAFE_INTEGER, max: 9, partitions: null })).toEqual([]);
    expect(bench.node.residentCount).toBe(0);
  });

  test("though nobody serves what comes next", () => {
    const bench = running([command("a", { ...PERSIST, ...tell(1) }), command("c")]);
    bench.receipt(first(bench), RESULT);
    bench.settle();
    bench.performed(last(bench));
    bench.settle();
    bench.restart();
    bench.sleep(0);
    expect(shown(bench)).toEqual(["broadcast 0#1"]);
  });

  test("after a commit of unknown outcome, once; the end of its try is not forgotten", () => {
    const bench = running([command("a", PERSIST), command("b")]);
    bench.receipt(first(bench), RESULT);
    bench.settle();
    bench.holdsCommits = true;
    bench.performed(last(bench));
    bench.settle();
    bench.commitUnheard();
    bench.holdsCommits = false;
    bench.settle();
    expect(shown(bench)).toEqual(["persistence 0#1"]);
    expect(bench.kinds("e1").filter((kind) => kind === "postop.done")).toHaveLength(1);
    expect(bench.attempts().map(({ grant }) => grant.phase)).toEqual(["a", "b"]);
  });

  test("after a commit that was not written", () => {
    const bench = running([command("a", PERSIST), command("b")]);
    bench.holdsCommits = true;
    bench.receipt(first(bench), RESULT);
    bench.settle();
    bench.loseCommit();
    bench.holdsCommits = false;
    bench.settle();
    expect(shown(bench)).toEqual(["persistence 0#1"]);
  });
});

test("at most so many are under way, of the node and of one execution; the rest follow as these end", () => {
  const bench = new NodeFixture({ postOpsMax: 10, postOpsEach: 2 });
  bench.join("w1", TOPICS);
  const plan = bench.plan([command("a", tell(4))]);
  for (const id of ["e1", "e2", "e3", "e4"]) bench.start(plan, id);
  bench.work(() => RESULT);
  expect(bench.errands.map(({ execution }) => execution)).toHaveLength(5);
  const seen = new Set<string>();
  for (let i = 0; i < bench.errands.length; i++) {
    const task = bench.errands[i] as PostOpTask;
    seen.add(task.id);
    bench.performed(task);
    bench.settle();
    expect(bench.errands.length - i - 1).toBeLessThanOrEqual(5);
  }
  expect(seen.size).toBe(16);
  expect(bench.errands).toHaveLength(16);
  expect(bench.node.residentCount).toBe(0);
});

test("a target that hangs holds up neither what is persisted nor what goes to others", () => {
  const hanging = (i: number) => ({
    cmd_result_broadcasts: [{ url: `http://hangs/${i}`, retry: SLOW }],
    ...PERSIST,
  });
  const bench = new NodeFixture({ postOpsMax: 8, postOpsEach: 2 });
  bench.join("w1", TOPICS);
  const performAll = (isWanted: (task: PostOpTask) => boolean) => {
    for (let i = 0; i < bench.errands.length; i++) {
      const task = bench.errands[i] as PostOpTask;
      if (isWanted(task)) bench.performed(task);
      bench.settle();
    }
  };
  const goesOn = (task: PostOpTask) => !("url" in task.plan) || !task.plan.url.includes("hangs");
  for (let i = 0; i < 30; i++) bench.start(bench.plan([command("a", hanging(i))]), `h${i}`);
  bench.work(() => RESULT);
  performAll(goesOn);
  for (let i = 0; i < 30; i++) expect(bench.status(`h${i}`)).toBe("done");
  const open = bench.errands.filter((task) => !goesOn(task));
  expect(open).toHaveLength(4);
  for (let i = 0; i < 30; i++) bench.start(bench.plan([command("a", { ...tell(2), ...PERSIST })]), `o${i}`);
  bench.work(() => RESULT);
  performAll((task) => goesOn(task) && task.execution.startsWith("o"));
  const told = bench.errands.filter(({ op, execution }) => op === "broadcast" && execution.startsWith("o"));
  expect(told).toHaveLength(60);
  performAll(() => true);
  expect(bench.errands.filter((task) => !goesOn(task))).toHaveLength(30);
});

test("results that wait to be persisted keep further commands of the handler back", () => {
  const tasks = Array.from({ length: 200 }, (_, i) => i);
  const bench = new NodeFixture({ postOpsEach: 1 });
  bench.join("w1", TOPICS, { capacity: 10 });
  bench.start(bench.plan([command("a", PERSIST, { tasks })]), "e1");
  expect(bench.work(() => RESULT).length).toBeLessThan(64 + 10 + 1);
  for (let i = 0; i < bench.errands.length; i++) {
    bench.performed(bench.errands[i] as PostOpTask);
    bench.work(() => RESULT);
  }
  expect(bench.status("e1")).toBe("done");
  expect(bench.attempts()).toHaveLength(200);
});

test("a broadcast that is given up is a dead letter, which a retry of the execution leaves alone", () => {
  const once = { cmd_result_broadcasts: [{ url: "http://x", retry: { attempts: 1 } }] };
  const bench = running([
    {
      name: "a",
      handlers: {
        ...(command("a", once) as { handlers: object }).handlers,
        ...(command("b", {}, { retry: { attempts: 1 } }) as { handlers: object }).handlers,
      },
    },
  ]);
  const letters = () => bench.tables.listDeadLetters({ execution: "e1" }, { before: null, max: 9 });
  const [a, b] = ["a", "b"].map(
    (name) => bench.attempts().find(({ grant }) => grant.handler === name) as Attempt,
  );
  bench.receipt(a as Attempt, RESULT);
  bench.settle();
  bench.performed(last(bench), "gone");
  bench.settle();
  const [given] = bench.journal("e1").filter(({ event }) => event.kind === "postop.failed");
  expect(letters()).toMatchObject([{ seq: given?.seq, tasks: [0] }]);
  bench.receipt(b as Attempt, { status: "failed", payload: "{}" });
  bench.settle();
  expect(bench.status("e1")).toBe("failed");
  expect(letters()).toHaveLength(2);
  bench.control("retry", "e1");
  bench.settle();
  expect(letters()).toMatchObject([{ seq: given?.seq }]);
});

test("a cancel waits for a persistence that is owed, and says so", () => {
  const bench = running([command("a", PERSIST)]);
  bench.receipt(first(bench), RESULT);
  bench.settle();
  bench.control("cancel", "e1");
  bench.settle();
  expect(bench.status("e1")).toBe("cancelling");
  expect(bench.inspect("e1").why).toContain("1 owed post-operation must still end");
  bench.performed(last(bench));
  bench.settle();
  expect(bench.status("e1")).toBe("cancelled");
});

test("an ended execution that owes something is not purged", () => {
  const bench = running([command("a", tell(1))]);
  bench.receipt(first(bench), RESULT);
  bench.settle();
  const ended = () => bench.tables.listEnded({ finishedBefore: Number.MAX_SAFE_INTEGER, max: 9 });
  bench.input({ kind: "purge", ids: ["e1"] });
  bench.settle();
  expect(ended()).toEqual([]);
  expect(bench.status("e1")).toBe("done");
  expect(bench.inspect("e1").why).toBe("It is done; broadcast to http://x/0 is under way.");
  bench.performed(last(bench));
  bench.settle();
  expect(ended()).toEqual(["e1"]);
});

test("what was owed is not performed when the partition was lost before it could be; whoever has it next does", () => {
  const bench = running([command("a", PERSIST)]);
  bench.holdsCommits = true;
  bench.receipt(first(bench), RESULT);
  bench.settle();
  bench.commit();
  const [own] = bench.tables.open().owned;
  bench.input({ kind: "lost", partitions: [0] });
  bench.settle();
  expect(bench.errands).toEqual([]);
  // It comes back to the same process.
  bench.holdsCommits = false;
  const left = { leases: [], quotas: new Map(), declared: {} };
  bench.input({ kind: "taken", owned: own === undefined ? [] : [own], left });
  bench.settle();
  expect(shown(bench)).toEqual(["persistence 0#1"]);
});
