/** The part of the conformance suite about scans over all executions: work, timers, lists. */
import { expect, test } from "vitest";
import { type Head, type HeadFilter, workKey } from "../../../src/store/store.ts";
import { commit, headOf, start, step } from "../../fixtures/store/example-writes.ts";
import type { Lives } from "../../fixtures/store/store-lives-fixture.ts";

export function describeScans(get: () => Lives): void {
  describeWork(get);
  describeTimers(get);
  describeLists(get);

  test("a scan of no partition finds nothing, one of all by number finds what a scan of all does", async () => {
    const { store, info } = get();
    const letters = [{ id: "l", to: "b", body: "{}" }];
    await commit(store, info, [start("a", { timersSet: [{ timer: "t", due: 1 }], mail: letters })]);
    const scan = async (partitions: readonly number[] | null) => [
      await store.scanWork({ after: {}, each: 9, partitions }),
      await store.scanTimers({ until: 9, max: 9, partitions }),
      await store.scanMail({ after: 0, max: 9, partitions }),
    ];
    const all = await scan(null);
    expect(all.map((found) => found.length)).toEqual([1, 1, 1]);
    expect(await scan([])).toEqual([[], [], []]);
    expect(await scan([0])).toEqual(all);
  });
}

function describeWork(get: () => Lives): void {
  const withWork = (id: string, project: string, workflow: string) =>
    start(id, { head: headOf(id, { project, workflow }) });
  const ids = (heads: readonly { id: string }[]) => heads.map(({ id }) => id);

  test("work is found oldest first, so many of every (project, workflow) pair", async () => {
    const { store, info } = get();
    const many = Array.from({ length: 50 }, (_, i) => withWork(`b${i}`, "big", "w"));
    await commit(store, info, [...many, withWork("s1", "small", "v"), withWork("s2", "small", "w")]);
    await commit(store, info, [withWork("b50", "big", "v")]);
    const heads = await store.scanWork({ after: {}, each: 2, partitions: null });
    expect(ids(heads)).toEqual(["b50", "b0", "b1", "s1", "s2"]);
  });

  test("work goes on after the given order of each pair", async () => {
    const { store, info } = get();
    await commit(store, info, [
      withWork("a1", "p", "a"),
      withWork("b1", "p", "b"),
      withWork("a2", "p", "a"),
      withWork("a3", "p", "a"),
    ]);
    const scan = (after: Record<string, number>) => store.scanWork({ after, each: 1, partitions: null });
    expect(ids(await scan({ [workKey("p", "a")]: 1 }))).toEqual(["a2", "b1"]);
    expect(ids(await scan({ [workKey("p", "a")]: 3, [workKey("p", "b")]: 2 }))).toEqual(["a3"]);
    expect(ids(await scan({ [workKey("p", "a")]: 4, [workKey("p", "b")]: 2 }))).toEqual([]);
  });

  test("an execution leaves and enters the work as its head says", async () => {
    const lives = get();
    const { store, info } = lives;
    await commit(store, info, [withWork("a", "p", "w"), withWork("b", "p", "w"), withWork("c", "p", "w")]);
    const want = (id: string, value: "work" | "time" | "nothing", after: number) =>
      step(id, after, { head: headOf(id, { project: "p", workflow: "w", want: value }) });
    await commit(store, info, [want("a", "time", 1), want("b", "nothing", 1)]);
    expect(ids(await store.scanWork({ after: {}, each: 9, partitions: null }))).toEqual(["c"]);
    await commit(store, info, [want("a", "work", 2), want("c", "work", 1)]);
    expect(ids(await store.scanWork({ after: {}, each: 9, partitions: null }))).toEqual(["a", "c"]);
    await lives.restart();
    expect(ids(await lives.store.scanWork({ after: {}, each: 9, partitions: null }))).toEqual(["a", "c"]);
  });
}

function describeTimers(get: () => Lives): void {
  test("timers come soonest first, up to a time and a number", async () => {
    const { store, info } = get();
    await commit(store, info, [
      start("a", {
        timersSet: [
          { timer: "t", due: 30 },
          { timer: "s", due: 10 },
        ],
      }),
      start("b", {
        timersSet: [
          { timer: "t", due: 10 },
          { timer: "u", due: 20 },
        ],
      }),
    ]);
    const timers = async (until: number, max: number) =>
      (await store.scanTimers({ until, max, partitions: null })).map(({ execution, timer, due }) => [
        execution,
        timer,
        due,
      ]);
    expect(await timers(20, 9)).toEqual([
      ["a", "s", 10],
      ["b", "t", 10],
      ["b", "u", 20],
    ]);
    expect(await timers(Infinity, 1)).toEqual([["a", "s", 10]]);
    expect(await timers(9, 9)).toEqual([]);
    const later = await store.scanTimers({ from: 11, until: 99, max: 9, partitions: null });
    expect(later.map(({ due }) => due)).toEqual([20, 30]);
  });

  test("a timer is moved by setting it again and gone when cleared; one cleared and set is set", async () => {
    const lives = get();
    const { store, info } = lives;
    const set = (timer: string, due: number) => ({ timer, due });
    await commit(store, info, [start("a", { timersSet: [set("t", 1), set("u", 2), set("v", 3)] })]);
    await commit(store, info, [
      step("a", 1, { timersSet: [set("t", 9), set("u", 8)], timersCleared: ["u", "v", "never"] }),
    ]);
    await lives.restart({ clean: false });
    expect(await lives.store.scanTimers({ until: 99, max: 9, partitions: null })).toEqual([
      { execution: "a", timer: "u", due: 8 },
      { execution: "a", timer: "t", due: 9 },
    ]);
  });
}

function describeLists(get: () => Lives): void {
  const rows: [id: string, project: string, workflow: string, status: string][] = [
    ["1", "p", "a", "running"],
    ["2", "p", "b", "failed"],
    ["3", "q", "a", "running"],
    ["4", "p", "a", "done"],
    ["5", "q", "b", "failed"],
    ["6", "p", "a", "running"],
  ];

  const LISTS: [filter: HeadFilter, ids: string[]][] = [
    [{}, ["6", "5", "4", "3", "2", "1"]],
    [{ project: "p" }, ["6", "4", "2", "1"]],
    [{ workflow: "a" }, ["6", "4", "3", "1"]],
    [{ status: "failed" }, ["5", "2"]],
    [{ project: "p", status: "running" }, ["6", "1"]],
    [{ project: "p", workflow: "a", status: "done" }, ["4"]],
    [{ workflow: "b", status: "running" }, []],
    [{ project: "none" }, []],
  ];

  test("heads of any filter come newest first, page by page", async () => {
    const { store, info } = get();
    const writes = rows.map(([id, project, workflow]) =>
      start(id, { head: headOf(id, { project, workflow, status: "new" }) }),
    );
    await commit(store, info, writes);
    const changes = rows.map(([id, project, workflow, status]) =>
      step(id, 1, { head: headOf(id, { project, workflow, status }) }),
    );
    await commit(store, info, changes);
    for (const [filter, ids] of LISTS) {
      const all = await store.listHeads(filter, { before: null, max: 9 });
      expect([filter, all.map(({ id }) => id)]).toEqual([filter, ids]);
      const paged: string[] = [];
      for (let before: number | null = null; ; ) {
        const page = await store.listHeads(filter, { before, max: 2 });
        paged.push(...page.map(({ id }) => id));
        if (page.length < 2) break;
        before = page[1]?.order ?? 0;
      }
      expect([filter, paged]).toEqual([filter, ids]);
      const { status, ...rest } = filter;
      const counts = await store.countHeads(rest);
      const counted =
        status === undefined ? Object.values(counts).reduce((sum, n) => sum + n, 0) : counts[status];
      expect([filter, counted ?? 0]).toEqual([filter, ids.length]);
    }
  });

  test("running executions that wait for a time or a signal are counted through every change", async () => {
    const { store, info } = get();
    const of = (id: string, change: Partial<Head>) => headOf(id, { project: "p", workflow: "a", ...change });
    await commit(store, info, [
      start("1", { head: of("1", { want: "time" }) }),
      start("2", { head: of("2", { want: "work" }) }),
      start("3", { head: of("3", { project: "q", want: "time" }) }),
      start("4", { head: of("4", { workflow: "b", want: "time" }) }),
    ]);
    expect(await store.countWaiting({})).toBe(3);
    expect(await store.countWaiting({ project: "p" })).toBe(2);
    expect(await store.countWaiting({ workflow: "a" })).toBe(2);
    expect(await store.countWaiting({ project: "p", workflow: "b" })).toBe(1);
    await commit(store, info, [
      step("1", 1, { head: of("1", { status: "paused", want: "time" }) }),
      step("2", 1, { head: of("2", { want: "time" }) }),
      step("3", 1, { head: of("3", { project: "q", want: "work" }) }),
    ]);
    expect(await store.countWaiting({ workflow: "a" })).toBe(1);
    expect(await store.countHeads({})).toEqual({ running: 3, paused: 1 });
    const ended = { status: "done", want: "nothing", finishedAt: 9 } as const;
    await commit(store, info, [
      step("2", 2, { head: of("2", ended) }),
      step("4", 1, { head: of("4", { ...ended, workflow: "b" }) }),
    ]);
    await store.purge(["2", "4"]);
    expect(await store.countWaiting({})).toBe(0);
    expect(await store.auditTables({ repair: false })).toEqual([]);
  });
}
