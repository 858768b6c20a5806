// Moves of an open execution to another definition: phases that have begun must have the same meaning there.
import { describe, expect, test } from "vitest";
import { KernelRun, phase } from "../../test/fixtures/kernel/kernel-run-fixture.ts";
import { isRejection, unwrap } from "../std/rejection.ts";
import { parseDefinition } from "./definition/parse-definition.ts";
import { Execution } from "./execution.ts";
import { decodeUpTo, encodeEntries, UnknownVersion } from "./journal/journal-entry.ts";
import { publicEvent } from "./journal/public-event.ts";
import { replay, restore } from "./journal/replay.ts";
import { writeSnapshot } from "./journal/snapshot.ts";
import type { Answer } from "./message.ts";
import { viewExecution } from "./view.ts";

const many = (name: string, more: object = {}) => phase(name, { enumerate: { use: `w.${name}` }, ...more });

function definition(phases: readonly object[], more: object = {}): object {
  return { name: "w", version: "1.0.0", phases, ...more };
}

function moveTo(run: KernelRun, to: object, options: { id?: string; dryRun?: boolean } = {}): Answer {
  const text = JSON.stringify(unwrap(parseDefinition({ ...to, version: "2.0.0" })));
  return run.send({
    kind: "move",
    id: options.id ?? "m1",
    by: "ann",
    reason: null,
    definition: text,
    ...(options.dryRun === true ? { dryRun: true } : {}),
  });
}

/** The execution as replay, and as a snapshot with the rest of the journal, restore it. */
function restored(run: KernelRun, snapshotAt = run.execution.seq): readonly Execution[] {
  const rows = encodeEntries(run.events, "e1");
  const whole = replay(new Execution("e1", run.plan), rows);
  const part = replay(new Execution("e1", run.plan), rows, { to: snapshotAt });
  return [whole, restore("e1", run.plan, { snapshot: writeSnapshot(part), entries: rows })];
}

function message(answer: Answer): string {
  return isRejection(answer) ? `${answer.code}: ${answer.message}` : answer.kind;
}

describe("an execution that is moved", () => {
  test("keeps the settled tasks of its open visit, and goes on by the new definition", () => {
    const run = new KernelRun(definition([many("a"), phase("b")]));
    run.page("a", [1, 2]);
    run.seal("a");
    run.done("a", 0);
    expect(moveTo(run, definition([many("a"), phase("c"), phase("b")]))).toMatchObject({ kind: "applied" });
    expect(run.execution.plan.definition.version).toBe("2.0.0");
    expect(run.handler("a").tasks.settled.size).toBe(1);
    for (const one of restored(run)) expect(one).toEqual(run.execution);
    run.done("a", 1);
    expect(run.phase).toBe("c");
    run.done("c", 0);
    run.done("b", 0);
    expect(run.status).toBe("done");
    for (const at of [3, run.execution.seq])
      for (const one of restored(run, at))
        expect(viewExecution(one, 0)).toEqual(viewExecution(run.execution, 0));
  });

  test("asks for code in the versions of the new definition", () => {
    const pinned = (version: string) => definition([phase("a", { version })], { version });
    const run = new KernelRun(pinned("^1.0.0".slice(1)));
    moveTo(run, definition([phase("a", { version: "^2.0.0" })], { version: "2.0.0" }));
    expect(run.handler("a").plan.wanted.range).toBe("^2.0.0");
    expect(run.execution.hash).toBe(run.plan.hash);
    expect(run.execution.plan.hash).not.toBe(run.plan.hash);
  });

  test("is moved once by the id of the message; a dry run and the same definition change nothing", () => {
    const run = new KernelRun(definition([phase("a"), phase("b")]));
    const to = definition([phase("a")], { version: "2.0.0" });
    expect(moveTo(run, to, { dryRun: true })).toMatchObject({ kind: "ignored" });
    expect(run.of("moved")).toHaveLength(0);
    const first = moveTo(run, to);
    expect(moveTo(run, definition([phase("a"), phase("z")]))).toEqual(first);
    expect(moveTo(run, to, { id: "m2" })).toMatchObject({ kind: "ignored" });
    expect(run.of("moved").map(({ version, by }) => [version, by])).toEqual([["2.0.0", "ann"]]);
    const [moved] = run.events.filter(({ event }) => event.kind === "moved");
    expect(moved && publicEvent("e1", moved, "full")).toMatchObject({
      kind: "workflow.moved",
      version: "2.0.0",
      hash: run.execution.plan.hash,
    });
    expect(moved && "definition" in publicEvent("e1", moved, "full")).toBe(false);
  });

  test("while it is paused between phases goes on with the phase that was to start", () => {
    const run = new KernelRun(definition([phase("a"), phase("b")]));
    run.control("pause");
    run.done("a", 0);
    expect(message(moveTo(run, definition([phase("a"), phase("c")])))).toContain(
      'phase "b" starts next, but is missing in the new definition',
    );
    moveTo(run, definition([phase("x"), phase("a"), phase("b"), phase("c")]));
    run.control("resume");
    expect(run.phase).toBe("b");
  });

  test("before its first phase begins with the first phase of the new definition", () => {
    const run = new KernelRun(definition([phase("a")]), { startAt: 5_000 });
    moveTo(run, definition([phase("z"), phase("a")]));
    run.now = 5_000;
    run.send({ kind: "timer", timer: "start" });
    expect(run.phase).toBe("z");
  });
});

describe("a move is refused", () => {
  const begun = definition([many("a", { identity: "/id" }), phase("b")]);
  test.each<[what: string, to: object, why: string]>([
    [
      "to another workflow",
      { ...begun, name: "other" },
      'conflict: execution e1 belongs to the workflow "w", not to "other"',
    ],
    [
      "without a phase that has begun",
      definition([phase("b")]),
      'phase "a" has begun, but is missing in the new definition',
    ],
    [
      "with another source of tasks",
      definition([phase("a", { tasks: [1] })]),
      'its handler "a" was code for enumerated tasks with identity and is code for listed tasks',
    ],
    [
      "without identities",
      definition([many("a")]),
      "was code for enumerated tasks with identity and is code for enumerated tasks",
    ],
    [
      "with another handler",
      definition([
        {
          name: "a",
          handlers: { a: { use: "w.a", enumerate: { use: "w.a" }, identity: "/id" }, c: { use: "w.c" } },
        },
      ]),
      'phase "a" has begun, but its handler "c" is only in the new definition',
    ],
    [
      "with a compensation that the tasks did not have",
      definition([many("a", { identity: "/id", compensate: { use: "w.undo" } })]),
      "and is code for enumerated tasks with identity, compensation",
    ],
  ])("%s", (_what, to, why) => {
    const run = new KernelRun(begun);
    const { seq } = run.execution;
    expect(message(moveTo(run, to))).toContain(why);
    expect(run.execution.seq).toBe(seq);
  });

  test("after the end, and while it is cancelled", () => {
    const run = new KernelRun(definition([phase("a")]));
    const to = definition([phase("a"), phase("b")]);
    run.control("cancel");
    expect(message(moveTo(run, to))).toBe("wrong_status: execution e1 is cancelling and cannot be moved");
    run.drained();
    expect(message(moveTo(run, to))).toBe("wrong_status: execution e1 is cancelled and cannot be moved");
  });
});

test("older versions of Rondo do not read the journal of a moved execution", () => {
  const run = new KernelRun(definition([phase("a")]));
  moveTo(run, definition([phase("a"), phase("b")]));
  const [row] = encodeEntries(run.last, "e1");
  expect(() => decodeUpTo(6, row as never)).toThrow(UnknownVersion);
});
