/** The part of the conformance suite about journals: loading, ranges, snapshots, marks, odd bodies. */
import { expect, test } from "vitest";
import type { JournalRange } from "../../../src/store/store.ts";
import { commit, entry, start, step } from "../../fixtures/store/example-writes.ts";
import type { Lives } from "../../fixtures/store/store-lives-fixture.ts";

export function describeJournals(get: () => Lives): void {
  describeSnapshots(get);
  describeRanges(get);

  test("executions are loaded in the order asked for, null for what does not exist", async () => {
    const { store, info } = get();
    await commit(store, info, [start("a"), start("b")]);
    const loaded = await store.load(["b", "none", "a", "b"]);
    expect(loaded.map((execution) => execution?.head.id ?? null)).toEqual(["b", null, "a", "b"]);
  });

  test("opened marks are raised one by one, the others stay", async () => {
    const lives = get();
    const { store, info } = lives;
    await commit(store, info, [start("a", { opened: { "p.1.h": 1000, "p.1.i": 5 } })]);
    await commit(store, info, [step("a", 1, { opened: { "p.1.h": 2000, "q.1.h": 1 } })]);
    await commit(store, info, [step("a", 2)]);
    const opened = { "p.1.h": 2000, "p.1.i": 5, "q.1.h": 1 };
    expect((await store.load(["a"]))[0]?.opened).toEqual(opened);
    await lives.restart({ clean: false });
    expect((await lives.store.load(["a"]))[0]?.opened).toEqual(opened);
  });

  test("the first rows of a journal are deleted, and the journal goes on", async () => {
    const lives = get();
    const { store, info } = lives;
    await commit(store, info, [start("a"), start("b")]);
    for (let seq = 1; seq < 6; seq++)
      await commit(store, info, [step("a", seq), ...(seq < 3 ? [step("b", seq)] : [])]);
    await store.trimJournal("a", 4);
    await store.trimJournal("none", 4);
    const rows = async (id: string) =>
      (await lives.store.readJournal({ execution: id, from: 1 })).map(({ seq }) => seq);
    expect([await rows("a"), await rows("b")]).toEqual([
      [4, 5, 6],
      [1, 2, 3],
    ]);
    await commit(store, info, [step("a", 6)]);
    await lives.restart();
    const [loaded] = await lives.store.load(["a"]);
    expect(loaded?.entries.map(({ seq }) => seq)).toEqual([4, 5, 6, 7]);
    expect(loaded?.chain).toBe("chain-a-7");
  });

  test("a row that also has later events is not deleted", async () => {
    const { store, info } = get();
    await commit(store, info, [start("a")]);
    await commit(store, info, [
      step("a", 1, { entries: [{ ...entry(2, "x"), count: 3 }], chain: "chain-a-4" }),
    ]);
    await store.trimJournal("a", 4);
    const rows = await store.readJournal({ execution: "a", from: 1 });
    expect(rows.map(({ seq }) => seq)).toEqual([2]);
  });

  test("odd and large bodies come back as they were", async () => {
    const lives = get();
    const bodies = Object.entries(BODIES);
    const writes = bodies.map(([id, body]) => {
      const snapshot = { seq: 1, foldVersion: 1, chain: `chain-${id}-1`, body };
      return start(id, { entries: [entry(1, body)], snapshot });
    });
    await commit(lives.store, lives.info, writes);
    await lives.restart();
    for (const [id, body] of bodies) {
      const [loaded] = await lives.store.load([id]);
      const [row] = await lives.store.readJournal({ execution: id, from: 1 });
      const same = { row: row?.body === body, snapshot: loaded?.snapshot?.body === body };
      expect({ id, ...same }).toEqual({ id, row: true, snapshot: true });
    }
  });
}

const BODIES = {
  unicode: 'ä \u{1F600} \u{10FFFF} \u2028 "quoted" \\ \n\t',
  "a NUL as an escape": '{"v":"\\u0000"}',
  "a bare NUL": "before\0after\0",
  nothing: "",
  "a number": "1e400",
  "1 MB": "0123456789abcdef".repeat(65_536),
  "1 MB beyond ASCII": "ß".repeat(1_048_576),
};

function describeSnapshots(get: () => Lives): void {
  const snapshot = (seq: number, chain = `chain-a-${seq}`) => ({
    seq,
    foldVersion: 3,
    chain,
    body: `at ${seq}`,
  });

  test("a snapshot stands for the rows up to its number, and is replaced by the next", async () => {
    const { store, info } = get();
    await commit(store, info, [start("a"), step("a", 1), step("a", 2, { snapshot: snapshot(2) })]);
    const [first] = await store.load(["a"]);
    expect(first).toMatchObject({ snapshot: snapshot(2), entries: [{ seq: 3 }], chain: "chain-a-3" });
    await commit(store, info, [step("a", 3, { entries: [], snapshot: snapshot(3) })]);
    const [second] = await store.load(["a"]);
    expect(second).toMatchObject({ snapshot: snapshot(3), entries: [], chain: "chain-a-3" });
  });

  test.each([
    ["another chain hash", snapshot(2, "other")],
    ["a number inside of a row", snapshot(3, "chain-a-2")],
    ["a number inside of a write", { ...snapshot(5), chain: "" }],
    ["a number beyond the end", snapshot(9, "chain-a-7")],
  ])("a snapshot with %s is ignored and every row is given", async (_what, wrong) => {
    const { store, info } = get();
    await commit(store, info, [start("a"), step("a", 1, { entries: [entry(2, "two to four", 3)] })]);
    await commit(store, info, [step("a", 4, { entries: [entry(5), entry(6)], snapshot: wrong })]);
    const [a] = await store.load(["a"]);
    expect(a?.snapshot).toBeNull();
    expect(a?.entries.map(({ seq }) => seq)).toEqual([1, 2, 5, 6]);
  });

  test("a snapshot of another fold version is ignored when one is asked for", async () => {
    const { store, info } = get();
    await commit(store, info, [start("a"), step("a", 1, { snapshot: snapshot(1) })]);
    const [asked] = await store.load(["a"], { foldVersion: 4 });
    expect(asked).toMatchObject({ snapshot: null, entries: [{ seq: 1 }, { seq: 2 }] });
    const [same] = await store.load(["a"], { foldVersion: 3 });
    expect(same).toMatchObject({ snapshot: snapshot(1), entries: [{ seq: 2 }] });
  });
}

function describeRanges(get: () => Lives): void {
  const range = (parts: Partial<JournalRange>): JournalRange => ({ execution: "a", from: 1, ...parts });

  const RANGES: [what: string, range: JournalRange, seqs: number[]][] = [
    ["from the start", range({}), [1, 2, 5, 6]],
    ["from before the start", range({ from: 0 }), [1, 2, 5, 6]],
    ["from inside of a row", range({ from: 3 }), [2, 5, 6]],
    ["from the last event of a row", range({ from: 4 }), [2, 5, 6]],
    ["from a row's first event", range({ from: 5 }), [5, 6]],
    ["from the end on", range({ from: 7 }), []],
    ["to inside of a row", range({ to: 3 }), [1, 2]],
    ["to a row's first event", range({ to: 5 }), [1, 2, 5]],
    ["one event inside of a row", range({ from: 3, to: 3 }), [2]],
    ["two rows at most", range({ rowsMax: 2 }), [1, 2]],
    ["no rows", range({ rowsMax: 0 }), []],
    ["until 11 characters are read", range({ charsMax: 11 }), [1, 2]],
    ["at least one row, however long", range({ from: 2, charsMax: 1 }), [2]],
    ["of nobody", range({ execution: "nobody" }), []],
  ];

  test("ranges hold whole rows, from the one with the first event wanted on", async () => {
    const { store, info } = get();
    const rows = [entry(1, "x".repeat(10)), entry(2, "y".repeat(10), 3)];
    await commit(store, info, [start("b"), start("a", { entries: rows })]);
    await commit(store, info, [step("a", 4), step("b", 1), step("a", 5)]);
    for (const [what, wanted, seqs] of RANGES) {
      const found = await store.readJournal(wanted);
      expect([what, found.map(({ seq }) => seq)]).toEqual([what, seqs]);
    }
  });

  test("rows have their chain hashes if these are asked for: one after each write", async () => {
    const { store, info } = get();
    const rows = [entry(1, "x"), entry(2, "y"), entry(3, "z")];
    await commit(store, info, [start("a", { entries: rows, chain: "first" })]);
    await commit(store, info, [{ ...step("a", 3), chain: "second" }]);
    const found = await store.readJournal(range({ chains: true }));
    expect(found.map(({ chain }) => chain)).toEqual([null, null, "first", "second"]);
    expect((await store.readJournal(range({}))).every((row) => !("chain" in row))).toBe(true);
  });

  test("a long journal comes whole, and in pages by rows and by characters", async () => {
    const { store, info } = get();
    const rows = Array.from({ length: 200 }, (_, i) => entry(i + 1, "z".repeat(100)));
    await commit(store, info, [start("a", { entries: rows })]);
    expect(await store.readJournal(range({}))).toEqual(rows);
    expect(await store.readJournal(range({ from: 11, rowsMax: 100 }))).toEqual(rows.slice(10, 110));
    expect(await store.readJournal(range({ from: 11, charsMax: 9_901 }))).toEqual(rows.slice(10, 110));
    expect(await store.readJournal(range({ from: 11, charsMax: 3_200 }))).toEqual(rows.slice(10, 42));
  });
}
