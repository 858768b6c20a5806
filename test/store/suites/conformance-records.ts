/** The part of the conformance suite about what rides along with commits: letters, logs, dead letters. */
import { expect, test } from "vitest";
import { Bug } from "../../../src/std/assert.ts";
import { fenceOf, type LogRow, type StoredLogRow } from "../../../src/store/store.ts";
import { commit, headOf, logRow, start, step } from "../../fixtures/store/example-writes.ts";
import type { Lives } from "../../fixtures/store/store-lives-fixture.ts";

export function describeRecords(get: () => Lives): void {
  describeMail(get);
  describeLogs(get);
  describeDeadLetters(get);

  test("records are all or nothing with their commit, and left out with their write", async () => {
    const { store, info } = get();
    const records = {
      mail: [{ id: "l", to: "b", body: "{}" }],
      logs: [logRow([1])],
      deadLetters: [{ seq: 1, tasks: [4] }],
    };
    await commit(store, info, [start("a")]);
    const everything = async () => [
      await store.scanMail({ after: 0, max: 9, partitions: null }),
      await store.readLogs({ execution: "a", after: 0, rowsMax: 9 }),
      await store.listDeadLetters({}, { before: null, max: 9 }),
    ];
    const writes = [step("a", 1, records), step("nobody", 1)];
    expect(await store.commit({ fence: fenceOf(info), writes })).toMatchObject({ kind: "fenced" });
    const stale = { ...fenceOf(info), epochs: { 0: (info.owned[0]?.epoch ?? 0) - 1 } };
    expect(await store.commit({ fence: stale, writes: [step("a", 1, records)] })).toMatchObject({
      kind: "fenced",
    });
    expect(await commit(store, info, [start("a", records)])).toEqual(["a"]);
    expect(await everything()).toEqual([[], [], []]);
    await commit(store, info, [step("a", 1, records)]);
    expect((await everything()).map((rows) => rows.map(({ order }) => order))).toEqual([[1], [1], [1]]);
  });
}

function describeMail(get: () => Lives): void {
  const letter = (id: string, to = "b") => ({ id, to, body: `{"id":"${id}"}` });

  test("letters are there from the sender's commit to the receiver's, in the order of storing", async () => {
    const lives = get();
    await commit(lives.store, lives.info, [
      start("a", { mail: [letter("z"), letter("y", "nobody")] }),
      start("b", { mail: [letter("x")] }),
    ]);
    await lives.restart({ clean: false });
    const { store, info } = lives;
    const scan = (after: number, max = 9) => store.scanMail({ after, max, partitions: null });
    expect(await scan(0)).toEqual([
      { order: 1, ...letter("z") },
      { order: 2, ...letter("y", "nobody") },
      { order: 3, ...letter("x") },
    ]);
    expect((await scan(1, 1)).map(({ id }) => id)).toEqual(["y"]);
    await commit(store, info, [step("b", 1, { mail: [letter("w")] })], ["z", "x", "never"]);
    expect((await scan(0)).map(({ id, order }) => [id, order])).toEqual([
      ["y", 2],
      ["w", 4],
    ]);
    expect(await scan(4)).toEqual([]);
  });

  test("letters can be taken by a commit without writes, which is fenced as any other", async () => {
    const lives = get();
    const fence = fenceOf(lives.info);
    await commit(lives.store, lives.info, [start("a", { mail: [letter("x"), letter("y")] })]);
    await commit(lives.store, lives.info, [], ["x"]);
    await lives.restart({ clean: false });
    const verdict = await lives.store.commit({ fence, writes: [], mailTaken: ["y"] });
    expect(verdict).toMatchObject({ kind: "fenced" });
    expect((await lives.store.scanMail({ after: 0, max: 9, partitions: null })).map(({ id }) => id)).toEqual([
      "y",
    ]);
  });

  test("a refused commit takes no letters", async () => {
    const { store, info } = get();
    await commit(store, info, [start("a", { mail: [letter("x")] })]);
    const verdict = await store.commit({
      fence: fenceOf(info),
      writes: [step("a", 1), step("a", 7)],
      mailTaken: ["x"],
    });
    expect(verdict).toMatchObject({ kind: "fenced" });
    expect(await store.scanMail({ after: 0, max: 9, partitions: null })).toHaveLength(1);
  });

  test("an order is never given twice, not even after the last letter was taken", async () => {
    const lives = get();
    await commit(lives.store, lives.info, [start("a", { mail: [letter("x"), letter("y")] })]);
    await commit(lives.store, lives.info, [], ["y", "x"]);
    await lives.restart();
    await commit(lives.store, lives.info, [step("a", 1, { mail: [letter("x")] })]);
    expect(await lives.store.scanMail({ after: 2, max: 9, partitions: null })).toEqual([
      { order: 3, ...letter("x") },
    ]);
  });

  test("a letter whose id is there already is left out; odd bodies come back as they were", async () => {
    const { store, info } = get();
    const odd = { ...letter("x"), body: "before\0after \u{1F600}" };
    await commit(store, info, [start("a", { mail: [odd, letter("x")] })]);
    await commit(store, info, [step("a", 1, { mail: [letter("x"), letter("y")] })]);
    expect(await store.scanMail({ after: 0, max: 9, partitions: null })).toEqual([
      { order: 1, ...odd },
      { order: 2, ...letter("y") },
    ]);
  });
}

function describeLogs(get: () => Lives): void {
  const stored = (order: number, { mayRepeat: _, ...row }: LogRow): StoredLogRow => ({ ...row, order });
  const numbers = (rows: readonly StoredLogRow[]) => rows.map(({ lines }) => lines.map(({ n }) => n));

  test("log rows come back as they were, in the order of storing, page by page", async () => {
    const lives = get();
    const first = logRow([1, 2], { visit: 3, task: -1, number: 2, worker: "w\u{1F600}" });
    const second = logRow([], {
      attempt: "attempt-2",
      lines: [
        { n: 1, at: 5, level: "run", text: 'odd \0 \ud800 "\n', run: "r1" },
        { n: 1, at: 3, level: "progress", text: "", run: "" },
        { n: 2, at: 4, level: "error", text: "x".repeat(9_000) },
      ],
    });
    await commit(lives.store, lives.info, [start("a", { logs: [first] }), start("b", { logs: [second] })]);
    await commit(lives.store, lives.info, [step("a", 1, { logs: [second, logRow([])] })]);
    await commit(lives.store, lives.info, [step("a", 2, { logs: [first] })]);
    await lives.restart({ clean: false });
    const read = (execution: string, after = 0, rowsMax = 9) =>
      lives.store.readLogs({ execution, after, rowsMax });
    expect(await read("a")).toEqual([stored(1, first), stored(3, second), stored(4, first)]);
    expect(await read("b")).toEqual([stored(2, second)]);
    expect(await read("a", 1, 1)).toEqual([stored(3, second)]);
    expect(await read("a", 4)).toEqual([]);
    expect(await read("nobody")).toEqual([]);
  });

  test("rows that may repeat leave out what their attempt has stored already", async () => {
    const { store, info } = get();
    const again = (lines: number[], attempt = "attempt-1") => logRow(lines, { attempt, mayRepeat: true });
    await commit(store, info, [start("a", { logs: [logRow([1, 2, 2])] }), start("b")]);
    const logs = [again([1, 2]), again([2, 3]), again([3, 4, 5]), again([1, 2], "attempt-2")];
    await commit(store, info, [step("a", 1, { logs }), step("b", 1, { logs: [again([1])] })]);
    const rows = await store.readLogs({ execution: "a", after: 0, rowsMax: 9 });
    expect(numbers(rows)).toEqual([[1, 2, 2], [3], [4, 5], [1, 2]]);
    expect(rows.map(({ order }) => order)).toEqual([1, 2, 3, 4]);
    expect(rows[1]?.lines).toEqual(logRow([3]).lines);
    expect(numbers(await store.readLogs({ execution: "b", after: 0, rowsMax: 9 }))).toEqual([[1]]);
  });

  test("a line without a number is a bug", async () => {
    const { store, info } = get();
    const writes = [start("a", { logs: [logRow([0])] })];
    await expect(store.commit({ fence: fenceOf(info), writes })).rejects.toThrow(Bug);
  });
}

function describeDeadLetters(get: () => Lives): void {
  describeLists(get);
  describeDrops(get);
}

function describeLists(get: () => Lives): void {
  const FILTERS: [filter: Parameters<Lives["store"]["listDeadLetters"]>[0], orders: number[]][] = [
    [{}, [6, 5, 4, 3, 2, 1]],
    [{ project: "p" }, [6, 4, 2, 1]],
    [{ workflow: "a" }, [6, 5, 1]],
    [{ project: "p", workflow: "b" }, [4, 2]],
    [{ execution: "pa" }, [6, 1]],
    [{ execution: "pa", project: "p", workflow: "a" }, [6, 1]],
    [{ execution: "pa", project: "q" }, []],
    [{ execution: "pa", workflow: "b" }, []],
    [{ execution: "nobody" }, []],
    [{ project: "none" }, []],
  ];

  test("dead letters of any filter come newest first, page by page", async () => {
    const lives = get();
    const executions = ["pa", "pb", "qb", "qa"];
    const writes = executions.map((id) =>
      start(id, { head: headOf(id, { project: id.charAt(0), workflow: id.charAt(1) }) }),
    );
    await commit(lives.store, lives.info, writes);
    for (const [i, id] of ["pa", "pb", "qb", "pb", "qa", "pa"].entries())
      await commit(lives.store, lives.info, [
        step(id, 1, { entries: [], deadLetters: [{ seq: 7, tasks: [i, 1_000_000] }] }),
      ]);
    await lives.restart({ clean: false });
    const { store } = lives;
    expect((await store.listDeadLetters({}, { before: 4, max: 1 }))[0]).toEqual({
      order: 3,
      execution: "qb",
      project: "q",
      workflow: "b",
      seq: 7,
      tasks: [2, 1_000_000],
    });
    for (const [filter, orders] of FILTERS) {
      const all = await store.listDeadLetters(filter, { before: null, max: 9 });
      expect([filter, all.map(({ order }) => order)]).toEqual([filter, orders]);
      const before = orders[0] ?? 9;
      const page = await store.listDeadLetters(filter, { before, max: 1 });
      expect([filter, page.map(({ order }) => order)]).toEqual([filter, orders.slice(1, 2)]);
    }
  });
}

function describeDrops(get: () => Lives): void {
  test("clearing takes those from before the write, of that execution, from a sequence number on", async () => {
    const { store, info } = get();
    const dead = (seq: number) => ({ deadLetters: [{ seq, tasks: [seq] }] });
    await commit(store, info, [start("a", dead(1)), start("b", dead(1))]);
    await commit(store, info, [step("a", 1, { deadLettersCleared: 1, ...dead(2) })]);
    const list = async () =>
      (await store.listDeadLetters({}, { before: null, max: 9 })).map(({ execution, seq }) => [
        execution,
        seq,
      ]);
    expect(await list()).toEqual([
      ["a", 2],
      ["b", 1],
    ]);
    await commit(store, info, [step("b", 1, { deadLettersCleared: 1 }), step("a", 2, dead(3))]);
    expect(await list()).toEqual([
      ["a", 3],
      ["a", 2],
    ]);
    await commit(store, info, [step("a", 3, { deadLettersCleared: 3 })]);
    expect(await list()).toEqual([["a", 2]]);
  });

  test("tasks are dropped one by one, and an empty dead letter is gone for good", async () => {
    const lives = get();
    await commit(lives.store, lives.info, [
      start("a", {
        deadLetters: [
          { seq: 1, tasks: [3, 5, 8] },
          { seq: 2, tasks: [9] },
        ],
      }),
    ]);
    const list = async () =>
      (await lives.store.listDeadLetters({}, { before: null, max: 9 })).map(({ order, tasks }) => [
        order,
        tasks,
      ]);
    await lives.store.dropDeadLetter(1, [5, 77]);
    await lives.store.dropDeadLetter(7, null);
    expect(await list()).toEqual([
      [2, [9]],
      [1, [3, 8]],
    ]);
    await lives.store.dropDeadLetter(1, [8, 3]);
    await lives.store.dropDeadLetter(2, null);
    await lives.restart();
    expect(await list()).toEqual([]);
    await commit(lives.store, lives.info, [step("a", 1, { deadLetters: [{ seq: 3, tasks: [1] }] })]);
    expect(await list()).toEqual([[3, [1]]]);
  });

  test("a dead letter of nothing is a bug", async () => {
    const { store, info } = get();
    const writes = [start("a", { deadLetters: [{ seq: 1, tasks: [] }] })];
    await expect(store.commit({ fence: fenceOf(info), writes })).rejects.toThrow(Bug);
  });
}
