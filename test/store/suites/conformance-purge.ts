/** The part of the conformance suite about executions that have ended: finding and forgetting them. */
import { expect, test } from "vitest";
import { fenceOf } from "../../../src/store/store.ts";
import {
  commit,
  endedHead,
  entry,
  headOf,
  logRow,
  start,
  step,
} from "../../fixtures/store/example-writes.ts";
import type { Lives } from "../../fixtures/store/store-lives-fixture.ts";

/** All that a write can hold. */
const full = (id: string) => ({
  entries: [entry(1), entry(2)],
  timersSet: [{ timer: "t", due: 1 }],
  opened: { "p.1.h": 3 },
  snapshot: { seq: 2, foldVersion: 1, chain: `chain-${id}-1`, body: "state" },
  mail: [{ id: `from-${id}`, to: id, body: "{}" }],
  logs: [logRow([1, 2])],
  deadLetters: [{ seq: 1, tasks: [1] }],
});

async function everything({ store }: Lives) {
  return {
    loaded: await store.load(["a", "b", "c"]),
    journal: await store.readJournal({ execution: "a", from: 1 }),
    heads: (await store.listHeads({}, { before: null, max: 9 })).map(({ id, order }) => [id, order]),
    byProject: (await store.listHeads({ project: "default" }, { before: null, max: 9 })).length,
    ended: await store.listEnded({ finishedBefore: Infinity, max: 9 }),
    timers: (await store.scanTimers({ until: 9, max: 9, partitions: null })).map(
      ({ execution }) => execution,
    ),
    logs: await store.readLogs({ execution: "a", after: 0, rowsMax: 9 }),
    dead: (await store.listDeadLetters({}, { before: null, max: 9 })).map(({ execution }) => execution),
    ofProject: await store.listDeadLetters({ project: "default" }, { before: null, max: 9 }),
    letters: (await store.scanMail({ after: 0, max: 9, partitions: null })).map(({ to }) => to),
  };
}

export function describePurge(get: () => Lives): void {
  describeEnded(get);
  describeForgetting(get);
  describeAfterwards(get);
}

function describeEnded(get: () => Lives): void {
  test("those that ended before a time are found oldest first, and no longer when they go on", async () => {
    const lives = get();
    const { store, info } = lives;
    await commit(store, info, [
      start("a", { head: endedHead("a", 30) }),
      start("b"),
      start("c", { head: endedHead("c", 10) }),
      start("d", { head: endedHead("d", 20) }),
      start("e", { head: endedHead("e", 10) }),
    ]);
    const ended = (finishedBefore: number, max = 9) => lives.store.listEnded({ finishedBefore, max });
    expect(await ended(31)).toEqual(["c", "e", "d", "a"]);
    expect(await ended(Infinity, 2)).toEqual(["c", "e"]);
    expect(await ended(20)).toEqual(["c", "e"]);
    expect(await ended(10)).toEqual([]);
    const range = { finishedFrom: 20, finishedBefore: 31, max: 9 };
    expect(await lives.store.listEnded(range)).toEqual(["d", "a"]);
    expect(await lives.store.listEnded({ ...range, status: "failed" })).toEqual([]);
    expect(await lives.store.listEnded({ ...range, status: "done" })).toEqual(["d", "a"]);
    await commit(store, info, [
      step("b", 1, { head: endedHead("b", 5) }),
      step("c", 1, { head: headOf("c") }),
      step("e", 1, { head: endedHead("e", 40) }),
    ]);
    await lives.restart({ clean: false });
    expect(await ended(Infinity)).toEqual(["b", "d", "a", "e"]);
  });
}

function describeForgetting(get: () => Lives): void {
  test("a purge takes what has ended with everything about it, and leaves the rest alone", async () => {
    const lives = get();
    const { store, info } = lives;
    await commit(store, info, [
      start("a", { ...full("a"), head: endedHead("a", 1) }),
      start("b", full("b")),
      start("c", { ...full("c"), head: endedHead("c", 1) }),
    ]);
    const before = await everything(lives);
    await store.purge(["nobody", "a", "b", "a"]);
    const after = await everything(lives);
    expect(after).toEqual({
      loaded: [null, before.loaded[1], before.loaded[2]],
      journal: [],
      heads: [
        ["c", 3],
        ["b", 2],
      ],
      byProject: 2,
      ended: ["c"],
      timers: ["b", "c"],
      logs: [],
      dead: ["c", "b"],
      ofProject: before.ofProject.filter(({ execution }) => execution !== "a"),
      letters: ["a", "b", "c"],
    });
    await lives.restart({ clean: false });
    expect(await everything(lives)).toEqual(after);
  });

  test("a purge leaves what has ended and is kept for a later execution of its id", async () => {
    const lives = get();
    const { store, info } = lives;
    await commit(store, info, [
      start("a", { ...full("a"), head: { ...endedHead("a", 1), want: "time" } }),
      start("b", { ...full("b"), head: endedHead("b", 1) }),
    ]);
    const before = await everything(lives);
    await store.purge(["a", "b"]);
    const { loaded, heads } = await everything(lives);
    expect(loaded.slice(0, 2)).toEqual([before.loaded[0], null]);
    expect(heads).toEqual([["a", 1]]);
    await commit(store, info, [step("a", 2, { head: endedHead("a", 2) })]);
    await store.purge(["a"]);
    expect((await everything(lives)).heads).toEqual([]);
  });

  test("a write to what was purged is refused; its id can be created anew, and is another execution", async () => {
    const lives = get();
    await commit(lives.store, lives.info, [start("a", { ...full("a"), head: endedHead("a", 1) })]);
    await lives.store.purge(["a"]);
    const late = await lives.store.commit({ fence: fenceOf(lives.info), writes: [step("a", 2)] });
    expect(late).toEqual({ kind: "fenced", why: "there is no execution a", partitions: [0] });
    expect(await commit(lives.store, lives.info, [start("a"), step("a", 1)])).toEqual([]);
    const [a] = await lives.store.load(["a"]);
    expect(a).toMatchObject({ head: { order: 2, finishedAt: null }, snapshot: null, opened: {} });
    expect(a?.entries.map(({ seq }) => seq)).toEqual([1, 2]);
    expect(await lives.store.readLogs({ execution: "a", after: 0, rowsMax: 9 })).toEqual([]);
    const logs = [logRow([1], { mayRepeat: true })];
    await commit(lives.store, lives.info, [step("a", 2, { logs })]);
    expect(await lives.store.readLogs({ execution: "a", after: 0, rowsMax: 9 })).toHaveLength(1);
  });
}

function describeAfterwards(get: () => Lives): void {
  test("orders of what was purged are never given again, also after a restart", async () => {
    const lives = get();
    await commit(lives.store, lives.info, [start("a"), start("b", { head: endedHead("b", 1) })]);
    await lives.store.purge(["b"]);
    await lives.restart();
    await commit(lives.store, lives.info, [start("c")]);
    expect((await lives.store.load(["c"]))[0]?.head.order).toBe(3);
  });

  test("a long journal and many executions are purged while commits go on", async () => {
    const { store, info } = get();
    const rows = Array.from({ length: 3_500 }, (_, i) => entry(i + 1, "x"));
    const ids = Array.from({ length: 250 }, (_, i) => `e${i}`);
    await commit(store, info, [start("long", { entries: rows, head: endedHead("long", 1) }), start("other")]);
    await commit(
      store,
      info,
      ids.map((id) => start(id, { head: endedHead(id, 2) })),
    );
    const steps = Array.from({ length: 20 }, (_, i) => step("other", i + 1));
    await Promise.all([store.purge(["long", ...ids]), ...steps.map((write) => commit(store, info, [write]))]);
    expect((await store.listHeads({}, { before: null, max: 999 })).map(({ id }) => id)).toEqual(["other"]);
    expect((await store.load(["other"]))[0]?.entries).toHaveLength(21);
  });
}
