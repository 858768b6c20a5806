/** The part of the conformance suite about commits: what they refuse, and what they leave behind. */
import { expect, test } from "vitest";
import { Bug } from "../../../src/std/assert.ts";
import { fenceOf } from "../../../src/store/store.ts";
import { commit, entry, headOf, start, step } from "../../fixtures/store/example-writes.ts";
import type { Lives } from "../../fixtures/store/store-lives-fixture.ts";

export function describeCommits(get: () => Lives): void {
  describeVerdicts(get);
  describeContent(get);
  describeHeads(get);
}

function describeVerdicts(get: () => Lives): void {
  test("what was committed is there, and is there after a restart", async () => {
    const lives = get();
    const head = headOf("a", { tags: { k: "v" }, priority: 7, error: "why\n", finishedAt: 12, phase: null });
    await commit(lives.store, lives.info, [start("a", { head })]);
    const before = await lives.store.load(["a"]);
    expect(before).toEqual([
      {
        head: { ...head, order: 1 },
        snapshot: null,
        entries: [entry(1)],
        chain: "chain-a-1",
        opened: {},
        epoch: 1,
      },
    ]);
    await lives.restart({ clean: false });
    expect(await lives.store.load(["a"])).toEqual(before);
  });

  test("a commit under an older epoch is refused and writes nothing", async () => {
    const lives = get();
    const fence = fenceOf(lives.info);
    await lives.restart();
    const verdict = await lives.store.commit({ fence, writes: [start("a")] });
    expect(verdict).toEqual({
      kind: "fenced",
      why: expect.stringContaining("epoch 2"),
      partitions: [0],
    });
    expect(await lives.store.load(["a"])).toEqual([null]);
  });

  test("a commit of another generation is refused", async () => {
    const { store, info } = get();
    const fence = { ...fenceOf(info), generation: "restored" };
    expect(await store.commit({ fence, writes: [start("a")] })).toMatchObject({ kind: "fenced" });
  });

  test.each([
    ["after an earlier event", step("a", 1)],
    ["after an event that is not there", step("a", 3)],
    ["to an execution that does not exist", step("b", 0)],
  ])("a write %s refuses the whole commit", async (_where, wrong) => {
    const { store, info } = get();
    await commit(store, info, [start("a"), start("c")]);
    await commit(store, info, [step("a", 1), step("c", 1)]);
    const before = await store.load(["a", "b", "c", "d"]);
    const writes = [start("d"), step("c", 2), wrong];
    const verdict = await store.commit({ fence: fenceOf(info), writes });
    expect(verdict).toEqual({
      kind: "fenced",
      why: expect.stringContaining(wrong.execution),
      partitions: [0],
    });
    expect(await store.load(["a", "b", "c", "d"])).toEqual(before);
    expect(await commit(store, info, [step("a", 2), step("c", 2), start("d")])).toEqual([]);
  });

  test.each([
    ["a write with a gap in its rows", step("a", 0, { entries: [entry(2)] })],
    ["a time that is no whole number", start("a", { entries: [{ ...entry(1), at: 1.5 }] })],
    ["a timer that is never due", start("a", { timersSet: [{ timer: "t", due: Infinity }] })],
    ["a create without a head", start("a", { head: null })],
    ["another execution's head", start("a", { head: headOf("b") })],
  ])("%s is a bug, not a verdict", async (_what, write) => {
    const { store, info } = get();
    await expect(store.commit({ fence: fenceOf(info), writes: [write] })).rejects.toThrow(Bug);
  });
}

function describeContent(get: () => Lives): void {
  test("a create whose id is taken is left out alone", async () => {
    const { store, info } = get();
    await commit(store, info, [start("a")]);
    const again = start("a", { chain: "other", timersSet: [{ timer: "t", due: 1 }] });
    expect(await commit(store, info, [start("b"), again, start("c"), start("c")])).toEqual(["a", "c"]);
    const [a, b, c] = await store.load(["a", "b", "c"]);
    expect([a?.chain, b?.chain, c?.chain]).toEqual(["chain-a-1", "chain-b-1", "chain-c-1"]);
    expect(await store.scanTimers({ until: 9, max: 9, partitions: null })).toEqual([]);
  });

  test("order numbers follow creation, without gaps for what was refused", async () => {
    const lives = get();
    await commit(lives.store, lives.info, [start("b"), start("a")]);
    await commit(lives.store, lives.info, [start("b"), start("c")]);
    await lives.store.commit({ fence: fenceOf(lives.info), writes: [start("x"), step("nobody", 4)] });
    await lives.restart();
    await commit(lives.store, lives.info, [start("d")]);
    const heads = await lives.store.listHeads({}, { before: null, max: 9 });
    expect(heads.map(({ id, order }) => [id, order])).toEqual([
      ["d", 4],
      ["c", 3],
      ["a", 2],
      ["b", 1],
    ]);
  });

  test("several writes to one execution apply in their order", async () => {
    const { store, info } = get();
    await commit(store, info, [
      start("a"),
      step("a", 1),
      step("a", 2, { head: headOf("a", { phase: "x" }) }),
    ]);
    const [a] = await store.load(["a"]);
    expect(a?.entries.map(({ seq }) => seq)).toEqual([1, 2, 3]);
    expect(a?.head.phase).toBe("x");
  });

  test("a write without rows changes what it names and keeps the chain", async () => {
    const { store, info } = get();
    await commit(store, info, [start("a")]);
    await commit(store, info, [
      step("a", 1, { entries: [], chain: "", head: headOf("a", { status: "paused" }) }),
    ]);
    const [a] = await store.load(["a"]);
    expect(a).toMatchObject({ chain: "chain-a-1", head: { status: "paused" }, entries: [{ seq: 1 }] });
  });

  test("the epoch of an execution is that of its last write, whatever it wrote", async () => {
    const lives = get();
    await commit(lives.store, lives.info, [start("a"), start("b"), start("c")]);
    await lives.restart();
    await commit(lives.store, lives.info, [step("b", 1, { entries: [], opened: { "p.1.h": 1 } })]);
    await commit(lives.store, lives.info, [step("c", 1, { head: headOf("c") })]);
    const loaded = await lives.store.load(["a", "b", "c"]);
    expect(loaded.map((execution) => execution?.epoch)).toEqual([1, 2, 2]);
  });

  test("a commit of nothing is accepted", async () => {
    const { store, info } = get();
    expect(await commit(store, info, [])).toEqual([]);
  });

  test("concurrent commits are all taken, in the order of the calls", async () => {
    const { store, info } = get();
    const calls = Array.from({ length: 20 }, (_, i) =>
      commit(store, info, [i === 0 ? start("a") : step("a", i)]),
    );
    await Promise.all(calls);
    expect((await store.load(["a"]))[0]?.entries).toHaveLength(20);
  });
}

function describeHeads(get: () => Lives): void {
  test("a commit over many executions changes each as its own write says", async () => {
    const { store, info } = get();
    const ids = Array.from({ length: 77 }, (_, i) => `e${i}`);
    const ending = { status: "done", want: "nothing", finishedAt: 9 } as const;
    const endOf = (id: string, i: number) =>
      headOf(id, { phase: `p${i}`, error: i % 7 === 0 ? `"${i}"` : null, ...(i % 3 === 0 ? ending : {}) });
    await commit(
      store,
      info,
      ids.map((id) => start(id)),
    );
    await commit(
      store,
      info,
      ids.map((id, i) => step(id, 1, { head: endOf(id, i) })),
    );
    const loaded = await store.load(ids);
    expect(loaded.map((one) => one?.head)).toEqual(ids.map((id, i) => expect.objectContaining(endOf(id, i))));
    const rows = await Promise.all(ids.map((execution) => store.readJournal({ execution, from: 1 })));
    expect(rows.map((entries) => entries.map(({ seq }) => seq))).toEqual(ids.map(() => [1, 2]));
  });

  test("the phase is that of the last head, however little else of it changed", async () => {
    const lives = get();
    const shown = async () => {
      const [a] = await lives.store.load(["a"]);
      const heads = [
        ...(await lives.store.listHeads({}, { before: null, max: 9 })),
        ...(await lives.store.scanWork({ after: {}, each: 9, partitions: null })),
      ];
      return new Set([a?.head, ...heads].map((head) => head?.phase));
    };
    const write = (after: number, parts: object) =>
      commit(lives.store, lives.info, [step("a", after, parts)]);
    await commit(lives.store, lives.info, [start("a")]);
    expect(await shown()).toEqual(new Set(["first"]));
    await write(1, { head: headOf("a", { phase: "second" }) });
    expect(await shown()).toEqual(new Set(["second"]));
    await write(2, {});
    await write(3, { entries: [], head: headOf("a", { phase: "second", status: "paused" }) });
    expect(await shown()).toEqual(new Set(["second"]));
    await lives.restart();
    await write(3, {});
    expect(await shown()).toEqual(new Set(["second"]));
    await write(4, { head: headOf("a", { phase: "third", status: "paused" }) });
    await write(5, { head: headOf("a", { phase: "first", status: "paused" }) });
    await write(6, {});
    expect(await shown()).toEqual(new Set(["first"]));
    await write(7, { head: headOf("a", { phase: "fourth" }) });
    await write(8, {});
    expect(await shown()).toEqual(new Set(["fourth"]));
    await write(9, { head: headOf("a", { phase: null }) });
    expect(await shown()).toEqual(new Set([null]));
  });
}
