// Commits on their way to a database that the test plays: what travels together, in which order it is written and told,
// and what becomes of the others when one fails.
import { expect, test } from "vitest";
import { entry, start, step } from "../../../test/fixtures/store/example-writes.ts";
import { VirtualClock } from "../../testing/virtual-clock.ts";
import { type Commit, type CommitVerdict, type MailboxMessage, StoreFault } from "../store.ts";
import { CommitQueue } from "./commit-queue.ts";
import { KnownExecutions } from "./known-executions.ts";
import type { Link, Statement } from "./link.ts";

/** A call that has no answer yet. */
interface Call {
  /** Answers the call as one that wrote everything. */
  ok(): Promise<void>;
  fail(error: Error): Promise<void>;
}

function setUp({ isReady = false } = {}) {
  const clock = new VirtualClock();
  /** What happened, in order. */
  const log: string[] = [];
  const calls: Call[] = [];
  const found: string[][] = [];
  const executions: string[] = [];
  const link = {
    session: 1,
    isReady,
    connected: async () => {},
    run(
      statement: Statement,
      values: readonly unknown[],
      { follows = false }: { follows?: boolean },
    ): Promise<unknown[][]> {
      if (statement.name === "find") {
        const ids = String(values[0]).split("\u001f");
        found.push(ids);
        // Every execution that is looked up exists, with one event.
        return Promise.resolve(ids.map((id) => [id, 1_000 + executions.length, 1, 1]));
      }
      log.push(`call ${calls.length + 1}${follows ? " ahead" : ""}`);
      return new Promise((resolve, reject) => {
        const created = `{${Array.from({ length: 300 }, (_, i) => i + 1).join()}}`;
        calls.push({
          ok: () => {
            resolve(statement.name === "create one" ? [[calls.length, 0]] : [[null, created, "{}", 0]]);
            return clock.settle();
          },
          fail: (error) => {
            reject(error);
            return clock.settle();
          },
        });
      });
    },
  } as unknown as Link;
  const queue = new CommitQueue({
    ...{ link, clock, knowledge: new KnownExecutions(link) },
    ...{ partitions: 4, generation: "g", lock: 1, owner: () => "me" },
  });
  /** Issues a commit; `name` is logged when its verdict arrives. */
  const commit = (name: string, content: Commit): Promise<CommitVerdict | string> =>
    queue.commit(content).then(
      (verdict) => {
        log.push(`${name} ${verdict.kind}`);
        return verdict;
      },
      (error: Error) => {
        log.push(`${name} fails`);
        return error.message;
      },
    );
  return { clock, log, calls, found, queue, commit };
}

const FENCE = { generation: "g", epochs: { 0: 1, 1: 1, 2: 1, 3: 1 } };
interface Made {
  readonly body?: string;
  readonly letters?: readonly MailboxMessage[];
  readonly taken?: readonly string[];
  readonly fence?: Commit["fence"];
}

/** A commit that creates an execution. */
function made(execution: string, { body, letters, taken, fence = FENCE }: Made = {}): Commit {
  const write = start(execution, {
    ...(body === undefined ? {} : { entries: [entry(1, body)] }),
    ...(letters === undefined ? {} : { mail: letters }),
  });
  return { fence, writes: [write], ...(taken === undefined ? {} : { mailTaken: taken }) };
}

test("what is issued in one turn travels together, and what is issued meanwhile in the next call", async () => {
  const { clock, log, calls, commit } = setUp();
  void commit("a", made("e1"));
  void commit("b", made("e2"));
  await clock.settle();
  void commit("c", made("e3"));
  void commit("d", made("e4"));
  await clock.settle();
  expect(log).toEqual(["call 1"]);
  await calls[0]?.ok();
  await calls[1]?.ok();
  expect(log.filter((line) => line.startsWith("call"))).toEqual(["call 1", "call 2"]);
  expect(log.slice(-2)).toEqual(["c ok", "d ok"]);
});

test("the next call is on its way before the verdicts of the last are told, and they are told in order", async () => {
  const { clock, log, calls, commit } = setUp();
  void commit("a", made("e1"));
  await clock.settle();
  void commit("b", made("e2"));
  await calls[0]?.ok();
  expect(log).toEqual(["call 1", "call 2", "a ok"]);
  // No commit waits behind it, so its verdict is reported at once.
  await calls[1]?.ok();
  expect(log).toEqual(["call 1", "call 2", "a ok", "b ok"]);
});

test("a call that fails fails its own commits only, and what they wrote is looked up before it is written to again", async () => {
  const { clock, log, calls, found, commit } = setUp();
  void commit("a", made("e1"));
  await clock.settle();
  void commit("b", made("e2"));
  await clock.settle();
  await calls[0]?.fail(new StoreFault("the connection is lost", { retryable: true, nothingWritten: false }));
  expect(log).toEqual(["call 1", "call 2", "a fails"]);
  await calls[1]?.ok();
  expect(log.at(-1)).toBe("b ok");
  expect(found).toEqual([]);
  void commit("a2", { fence: FENCE, writes: [step("e1", 1)] });
  await clock.settle();
  expect(found).toEqual([["e1"]]);
  await calls[2]?.ok();
  expect(log.at(-1)).toBe("a2 ok");
});

test("an id that is taken by a row nobody knew of is looked up, and the commit is told that it exists", async () => {
  const { clock, calls, found, commit } = setUp();
  const verdict = commit("a", made("e1"));
  await clock.settle();
  await calls[0]?.fail(Object.assign(new Error("duplicate key"), { code: "23505", severity: "ERROR" }));
  expect(found).toEqual([["e1"]]);
  await calls[1]?.ok();
  expect(await verdict).toMatchObject({ kind: "ok", exists: ["e1"] });
});

test("what must be alone runs after the commits before it and before those after it", async () => {
  const { clock, log, calls, queue, commit } = setUp();
  let end = (): void => {};
  void commit("a", made("e1"));
  const alone = queue.alone(async () => {
    log.push("alone");
    await new Promise<void>((resolve) => {
      end = resolve;
    });
  });
  void commit("b", made("e2"));
  await clock.settle();
  expect(log).toEqual(["call 1"]);
  await calls[0]?.ok();
  expect(log).toEqual(["call 1", "alone", "a ok"]);
  end();
  await alone;
  await clock.settle();
  await calls[1]?.ok();
  expect(log.slice(3)).toEqual(["call 2", "b ok"]);
});

test("when something fails alone, whoever asked hears of it, and commits go on", async () => {
  const { clock, log, calls, queue, commit } = setUp();
  const alone = queue.alone(() => Promise.reject(new Error("no")));
  void commit("a", made("e1"));
  await expect(alone).rejects.toThrow("no");
  await clock.settle();
  await calls[0]?.ok();
  expect(log).toEqual(["call 1", "a ok"]);
});

const letter = (id: string): MailboxMessage => ({ id, to: "e9", body: "{}" });
const other = { generation: "g", epochs: { 0: 1, 1: 1, 2: 1, 3: 2 } };

test.each<[string, Commit, Commit]>([
  ["is made under another fence", made("e1"), made("e2", { fence: other })],
  [
    "takes a letter that the first stores",
    made("e1", { letters: [letter("l")] }),
    made("e2", { taken: ["l"] }),
  ],
  [
    "stores a letter that the first takes",
    made("e1", { taken: ["l"] }),
    made("e2", { letters: [letter("l")] }),
  ],
  ["takes a letter that it stores itself", made("e1"), made("e2", { letters: [letter("l")], taken: ["l"] })],
  [
    "is too long to go with it",
    made("e1", { body: "x".repeat(5_000_000) }),
    made("e2", { body: "x".repeat(5_000_000) }),
  ],
])("a commit that %s goes after it, in a call of its own", async (_, first, second) => {
  const { clock, log, calls, commit } = setUp();
  void commit("a", first);
  void commit("b", second);
  await clock.settle();
  expect(log).toEqual(["call 1"]);
  await calls[0]?.ok();
  expect(log).toEqual(["call 1", "call 2", "a ok"]);
  await calls[1]?.ok();
  expect(log.at(-1)).toBe("b ok");
});

test("a call takes so many commits, and the rest goes in the next", async () => {
  const { clock, calls, log, commit } = setUp();
  for (let i = 0; i < 300; i++) void commit(`c${i}`, made(`e${i}`));
  await clock.settle();
  await calls[0]?.ok();
  expect(log.filter((line) => line.endsWith(" ok"))).toHaveLength(256);
  await calls[1]?.ok();
  expect(log.filter((line) => line.endsWith(" ok"))).toEqual(
    Array.from({ length: 300 }, (_, i) => `c${i} ok`),
  );
  expect(calls).toHaveLength(2);
});

test("a commit of another generation is refused without a call", async () => {
  const { calls, commit } = setUp();
  const verdict = await commit("a", made("e1", { fence: { generation: "old", epochs: { 0: 1 } } }));
  expect(verdict).toMatchObject({ kind: "fenced" });
  expect(calls).toEqual([]);
});

test("it is idle once nothing is under way and all are told", async () => {
  const { clock, log, calls, queue, commit } = setUp();
  void commit("a", made("e1"));
  await clock.settle();
  void commit("b", made("e2"));
  const idle = queue.idle().then(() => log.push("idle"));
  await calls[0]?.ok();
  expect(log).not.toContain("idle");
  await calls[1]?.ok();
  await idle;
  expect(log).toEqual(["call 1", "call 2", "a ok", "b ok", "idle"]);
});

/** A queue that has written the executions `e1` and `e2`, so that their commits need no read and may be sent ahead. */
async function setUpAhead() {
  const { clock, log, calls, commit, ...rest } = setUp({ isReady: true });
  void commit("first", { fence: FENCE, writes: [start("e1"), start("e2")] });
  await clock.settle();
  await calls[0]?.ok();
  log.length = 0;
  return { clock, log, calls, commit, ...rest };
}

const after = (execution: string): Commit => ({ fence: FENCE, writes: [step(execution, 1)] });

test("a commit of other executions is sent while the call before it is under way, and a third one waits", async () => {
  const { clock, log, calls, commit } = await setUpAhead();
  void commit("a", after("e1"));
  await clock.settle();
  void commit("b", made("e3"));
  await clock.settle();
  void commit("c", after("e2"));
  await clock.settle();
  expect(log).toEqual(["call 2", "call 3 ahead"]);
  await calls[1]?.ok();
  expect(log).toEqual(["call 2", "call 3 ahead", "call 4 ahead", "a ok"]);
  await calls[2]?.ok();
  await calls[3]?.ok();
  expect(log.slice(4)).toEqual(["b ok", "c ok"]);
});

test.each<[string, Commit, Commit]>([
  ["writes the same execution", after("e1"), { fence: FENCE, writes: [step("e1", 2)] }],
  ["writes an execution that is not known", after("e1"), after("e9")],
  ["deletes mail", after("e1"), { ...after("e2"), mailTaken: ["m"] }],
  ["follows one that deletes mail", { ...after("e1"), mailTaken: ["m"] }, after("e2")],
  ["is made under another fence", after("e1"), { ...after("e2"), fence: other }],
])("a commit that %s is not sent ahead", async (_, first, second) => {
  const { clock, log, calls, commit } = await setUpAhead();
  void commit("a", first);
  await clock.settle();
  void commit("b", second);
  await clock.settle();
  expect(log).toEqual(["call 2"]);
  await calls[1]?.ok();
  expect(log).toEqual(["call 2", "call 3", "a ok"]);
});

test("if a call fails, the one that was sent ahead has its own outcome", async () => {
  const { clock, log, calls, found, commit } = await setUpAhead();
  void commit("a", after("e1"));
  await clock.settle();
  void commit("b", after("e2"));
  await clock.settle();
  await calls[1]?.fail(new StoreFault("no", { retryable: true, nothingWritten: false }));
  await calls[2]?.ok();
  expect(log).toEqual(["call 2", "call 3 ahead", "a fails", "b ok"]);
  void commit("c", { fence: FENCE, writes: [step("e2", 2)] });
  await clock.settle();
  expect(found).toEqual([]);
});

test("what must be alone waits for both calls that are under way", async () => {
  const { clock, log, calls, queue, commit } = await setUpAhead();
  void commit("a", after("e1"));
  await clock.settle();
  void commit("b", after("e2"));
  const alone = queue.alone(() => Promise.resolve(void log.push("alone")));
  await clock.settle();
  await calls[1]?.ok();
  expect(log).toEqual(["call 2", "call 3 ahead", "a ok"]);
  await calls[2]?.ok();
  await alone;
  expect(log.slice(3)).toEqual(["alone", "b ok"]);
});
