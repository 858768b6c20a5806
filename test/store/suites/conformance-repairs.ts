/** The part of the conformance suite about repairs: what is derived from journals, and what is dropped since it cannot be read. */
import { describe, expect, test } from "vitest";
import { commit, headOf, start, step } from "../../fixtures/store/example-writes.ts";
import type { Lives } from "../../fixtures/store/store-lives-fixture.ts";

export function describeRepairs(get: () => Lives): void {
  describe("repairs", () => {
    test("put head, timers and marks as they follow from the journal, unless that has gone on", async () => {
      const lives = get();
      const { store, info } = lives;
      const timersSet = [
        { timer: "t1", due: 50 },
        { timer: "~retry", due: 70 },
      ];
      await commit(store, info, [start("a", { timersSet, opened: { "p.1.h": 3, "x.1.y": 5 } }), start("b")]);
      const opened = async () => (await store.load(["a"]))[0]?.opened;
      const head = {
        ...headOf("a"),
        status: "failed",
        want: "nothing" as const,
        finishedAt: 9,
        error: "E: \0x",
      };
      const timers = [
        { timer: "t2", due: 60 },
        { timer: "t3", due: 61 },
      ];
      expect(await store.putDerived({ head, timers, opened: null, end: 7 })).toBe(false);
      expect(await store.timersOf("a")).toEqual(timersSet);
      expect(await opened()).toEqual({ "p.1.h": 3, "x.1.y": 5 });
      expect(await store.putDerived({ head, timers, opened: { "p.1.h": 8 }, end: 1 })).toBe(true);
      expect(await store.timersOf("a")).toEqual([...timers, { timer: "~retry", due: 70 }]);
      expect(await opened()).toEqual({ "p.1.h": 8 });
      expect(await store.listHeads({ status: "failed" }, { before: null, max: 9 })).toMatchObject([head]);
      expect(await store.countHeads({})).toMatchObject({ failed: 1 });
      expect(await store.putDerived({ head, timers: [], opened: {}, end: null })).toBe(true);
      expect(await store.timersOf("a")).toEqual([{ timer: "~retry", due: 70 }]);
      expect(
        await store.putDerived({ head: { ...head, id: "nobody" }, timers: null, opened: null, end: null }),
      ).toBe(false);
      expect(await store.timersOf("nobody")).toEqual([]);
      expect(await opened()).toEqual({});
      // What the writer knew of the head is forgotten: the next write is of the execution as it is.
      await commit(store, info, [step("a", 1, { head: headOf("a") })]);
      expect(await store.countHeads({})).toEqual({ [headOf("a").status]: 2 });
      expect(await store.auditTables({ repair: false })).toEqual([]);
    });

    test("run between scans of timers, in any order", async () => {
      const { store, info } = get();
      await commit(store, info, [start("a", { timersSet: [{ timer: "t", due: 5 }] })]);
      const scan = () => store.scanTimers({ until: 9, max: 9, partitions: null });
      const due = [{ execution: "a", timer: "t", due: 5 }];
      for (let round = 0; round < 3; round++) {
        expect(await scan()).toEqual(due);
        expect(await store.timersOf("a")).toEqual([{ timer: "t", due: 5 }]);
        expect(await store.putDerived({ head: headOf("a"), timers: due, opened: null, end: 1 })).toBe(true);
        expect(await store.auditTables({ repair: true })).toEqual([]);
      }
      expect(await scan()).toEqual(due);
    });

    test("drop a damaged execution with all that is of it, and no other one", async () => {
      const lives = get();
      const { store, info } = lives;
      const letters = [
        { id: "l1", to: "a", body: "{}" },
        { id: "l2", to: "b", body: "{}" },
      ];
      await commit(store, info, [
        start("a", { mail: letters, timersSet: [{ timer: "t", due: 5 }] }),
        start("b"),
      ]);
      expect(await store.dropDamaged("a", null)).toBe(false);
      const head = { ...headOf("a"), status: "damaged", want: "nothing" as const, error: "journal row 1" };
      expect(await store.putDerived({ head, timers: null, opened: null, end: null })).toBe(true);
      expect(await store.dropDamaged("b", null)).toBe(false);
      expect(await store.dropDamaged("a", { id: "l3", to: "p", body: "{}" })).toBe(true);
      expect(await store.dropDamaged("a", null)).toBe(false);
      expect(await store.load(["a"])).toEqual([null]);
      expect(await store.readJournal({ execution: "a", from: 1 })).toEqual([]);
      const left = await store.scanMail({ after: 0, max: 9, partitions: null });
      expect(left.map(({ id }) => id)).toEqual(["l2", "l3"]);
      expect(await store.countHeads({})).toEqual({ [headOf("b").status]: 1 });
      await lives.restart();
      await commit(lives.store, lives.info, [start("a")]);
      expect((await lives.store.load(["a"]))[0]?.entries).toHaveLength(1);
    });
  });
}
