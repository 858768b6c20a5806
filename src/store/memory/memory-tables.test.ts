import { expect, test } from "vitest";
import {
  commit as commitTo,
  endedHead,
  logRow,
  start,
  step,
} from "../../../test/fixtures/store/example-writes.ts";
import { SeededRandom } from "../../std/random.ts";
import { type ExecutionWrite, fenceOf } from "../store.ts";
import { MemoryStore } from "./memory-store.ts";
import { MemoryTables } from "./memory-tables.ts";

function opened() {
  const tables = new MemoryTables({ random: new SeededRandom(1) });
  const fence = fenceOf(tables.open());
  const commit = (...writes: ExecutionWrite[]) => expect(tables.commit({ fence, writes }).kind).toBe("ok");
  const everything = () => ({
    executions: tables.load(["a", "b", "c"]),
    timers: tables.scanTimers({ until: 99, max: 99, partitions: null }),
    heads: tables.listHeads({}, { before: null, max: 99 }),
    letters: tables.scanMail({ after: 0, max: 99, partitions: null }),
    logs: ["a", "b"].map((execution) => tables.readLogs({ execution, after: 0, rowsMax: 99 })),
    deadLetters: tables.listDeadLetters({}, { before: null, max: 99 }),
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

test("letters, logs and dead letters are lost with their commits, and letters taken come back", () => {
  const letter = (id: string) => ({ id, to: "b", body: "{}" });
  const dead = (seq: number) => [{ seq, tasks: [seq] }];
  const commits: [writes: ExecutionWrite[], mailTaken: string[]][] = [
    [[start("a", { mail: [letter("x"), letter("y")], logs: [logRow([1])], deadLetters: dead(1) })], []],
    [[start("b", { deadLetters: dead(1), logs: [logRow([1])] })], ["x"]],
    [[step("a", 1, { deadLettersCleared: 1, deadLetters: dead(2), mail: [letter("z")] })], ["y"]],
    [[step("a", 2, { logs: [logRow([1, 2], { mayRepeat: true })], mail: [letter("x")] })], []],
    [[start("a", { mail: [letter("w")] })], []],
    [[], ["z", "x", "never"]],
  ];
  for (let lost = 0; lost <= commits.length; lost++) {
    const { tables, fence, everything } = opened();
    const states = [everything()];
    const run = ([writes, mailTaken]: (typeof commits)[number]) =>
      expect(tables.commit({ fence, writes, mailTaken }).kind).toBe("ok");
    for (const each of commits) {
      run(each);
      states.push(everything());
    }
    tables.lose(lost);
    expect(everything()).toEqual(states[commits.length - lost]);
    for (const each of commits.slice(commits.length - lost)) run(each);
    expect(everything()).toEqual(states[commits.length]);
  }
});

test("what forgets makes the commits before it final", () => {
  const { tables, commit } = opened();
  commit(start("a", { head: endedHead("a", 1), deadLetters: [{ seq: 1, tasks: [1] }] }));
  tables.dropDeadLetter(1, null);
  expect(tables.unsettled).toBe(0);
  commit(step("a", 1));
  tables.purge(["a"]);
  expect(tables.unsettled).toBe(0);
  expect(tables.load(["a"])).toEqual([null]);
});

test("what is settled cannot be lost, by acknowledgement or by opening again", () => {
  const { tables, commit } = opened();
  commit(start("a"));
  commit(start("b"));
  tables.settle(1);
  expect(() => tables.lose(2)).toThrow("only commits that are not settled can be reverted");
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
  expect(secondInfo).toMatchObject({ owned: [{ epoch: 2, uncleanEpoch: 1 }] });
  const late = await first.commit({ fence: fenceOf(firstInfo), writes: [step("a", 1)] });
  expect(late).toMatchObject({ kind: "fenced" });
  await first.close({ clean: true });
  expect(await new MemoryStore(tables).open()).toMatchObject({ owned: [{ epoch: 3, uncleanEpoch: 2 }] });
});

test("equal seeds give equal generations and keys", () => {
  const info = () => new MemoryTables({ random: new SeededRandom("x") }).open();
  expect(info()).toEqual(info());
});
