import { expect, test } from "vitest";
import { commit as commitTo, start, step } from "../../../test/store/example-writes.ts";
import { SeededRandom } from "../../std/random.ts";
import type { ExecutionWrite } from "../store.ts";
import { MemoryStore } from "./memory-store.ts";
import { MemoryTables } from "./memory-tables.ts";

function opened() {
  const tables = new MemoryTables({ random: new SeededRandom(1) });
  const { fence } = tables.open();
  const commit = (...writes: ExecutionWrite[]) => expect(tables.commit({ fence, writes }).kind).toBe("ok");
  const everything = () => ({
    executions: tables.load(["a", "b", "c"]),
    timers: tables.scanTimers({ until: 99, max: 99 }),
    heads: tables.listHeads({}, { before: null, max: 99 }),
  });
  return { tables, fence, commit, everything };
}

test("a crash loses any suffix of the commits that were not settled, and leaves what was before them", () => {
  const commits = [
    [start("a", { timersSet: [{ timer: "t", due: 1 }] })],
    [start("b"), step("a", 1, { timersCleared: ["t"], opened: { "p.1.h": 3 } })],
    [step("a", 2), step("b", 1, { timersSet: [{ timer: "u", due: 2 }] })],
    [start("c")],
  ];
  for (let lost = 0; lost <= commits.length; lost++) {
    const { tables, commit, everything } = opened();
    const states = [everything()];
    for (const writes of commits) {
      commit(...writes);
      states.push(everything());
    }
    expect(tables.unsettled).toBe(commits.length);
    tables.lose(lost);
    expect(everything()).toEqual(states[commits.length - lost]);
    for (const writes of commits.slice(commits.length - lost)) commit(...writes);
    expect(everything()).toEqual(states[commits.length]);
  }
});

test("what is settled cannot be lost, by acknowledgement or by opening again", () => {
  const { tables, commit } = opened();
  commit(start("a"));
  commit(start("b"));
  tables.settle(1);
  expect(() => tables.lose(2)).toThrow("only unsettled commits can be lost");
  tables.lose(1);
  expect(tables.load(["a", "b"]).map((execution) => execution?.head.id)).toEqual(["a", undefined]);
  commit(start("b"));
  tables.open();
  expect(tables.unsettled).toBe(0);
  expect(tables.load(["b"])[0]?.head.id).toBe("b");
});

test("a refused commit leaves nothing that could be lost", () => {
  const { tables, fence } = opened();
  expect(tables.commit({ fence, writes: [start("a"), step("nobody", 1)] }).kind).toBe("fenced");
  expect(tables.unsettled).toBe(0);
});

test("a store over the same tables is a restart, after which the first is a stale owner", async () => {
  const tables = new MemoryTables();
  const first = new MemoryStore(tables);
  const firstInfo = await first.open();
  await commitTo(first, firstInfo, [start("a")]);
  const second = new MemoryStore(tables);
  const secondInfo = await second.open();
  expect(secondInfo).toMatchObject({ fence: { epoch: 2 }, uncleanEpoch: 1 });
  const late = await first.commit({ fence: firstInfo.fence, writes: [step("a", 1)] });
  expect(late).toMatchObject({ kind: "fenced" });
  await first.close({ clean: true });
  expect(await new MemoryStore(tables).open()).toMatchObject({ fence: { epoch: 3 }, uncleanEpoch: 2 });
});

test("equal seeds give equal generations and keys", () => {
  const info = () => new MemoryTables({ random: new SeededRandom("x") }).open();
  expect(info()).toEqual(info());
});
