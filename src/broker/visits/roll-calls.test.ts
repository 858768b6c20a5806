import { describe, expect, test } from "vitest";
import { rollCallId } from "../../protocol/amqp-wire.ts";
import { signAttempt } from "../../protocol/attempt-id.ts";
import { SeededRandom } from "../../std/random.ts";
import { isRejection } from "../../std/rejection.ts";
import { readRollCall } from "../read-message.ts";
import { RollCalls } from "./roll-calls.ts";

const KEY = "k";
const QUEUE = "rondo.workflow.ex_1.work.work.tasks";

function calls() {
  const clock = { now: () => 1_000, after: () => () => {}, soon: () => {} };
  const roll = new RollCalls(QUEUE, { clock, engine: { info: { key: KEY } } });
  /** Broadcasts a roll call, which these workers answer with the attempts that they hold. */
  const ask = (held: Readonly<Record<string, readonly string[]>>, consumes = true) => {
    const call = roll.ask();
    for (const worker of Object.keys(held))
      roll.onAnswer({ rollCall: call?.number ?? 0, worker, consumes, held: held[worker] ?? [] });
    return call?.number ?? 0;
  };
  return { roll, ask };
}

describe("a roll call", () => {
  test("finds what no worker has, when it is missing twice in a row", () => {
    const { roll, ask } = calls();
    expect(roll.findLost(["a", "b", "c"], 2)).toEqual([]);
    ask({ one: ["a"], two: [] });
    expect(roll.findLost(["a", "b", "c"], 2)).toEqual([]);
    // By now the delivery of "b" has reached its worker.
    ask({ one: ["a"], two: ["b"] });
    expect(roll.findLost(["a", "b", "c"], 2)).toEqual(["c"]);
    ask({ one: ["a"], two: ["b"] });
    expect(roll.findLost(["a", "b"], 2)).toEqual([]);
  });

  test("judges nothing while fewer workers answer than there are consumers", () => {
    const { roll, ask } = calls();
    for (let i = 0; i < 10; i++) {
      expect(roll.findLost(["a"], 2)).toEqual([]);
      ask({ one: [] });
    }
    // The other worker may still hold "a", although it does not consume any more.
    const lost: string[] = [];
    for (let i = 0; i < 5; i++) {
      lost.push(...roll.findLost(["a", "b"], 1));
      ask({ one: [] });
    }
    expect(lost).toEqual(["b"]);
  });

  test("counts an answer that comes late, and so does not doubt what was asked", () => {
    const { roll, ask } = calls();
    roll.findLost(["a"], 1);
    const number = ask({});
    expect(roll.findLost(["a"], 1)).toEqual([]);
    roll.onAnswer({ rollCall: number, worker: "one", consumes: true, held: [] });
    ask({ one: [] });
    expect(roll.findLost(["a"], 1)).toEqual([]);
    ask({ one: [] });
    expect(roll.findLost(["a"], 1)).toEqual(["a"]);
  });

  test("counts what a worker has that is stopping, which is no consumer", () => {
    const { roll, ask } = calls();
    for (let i = 0; i < 4; i++) {
      expect(roll.findLost(["a"], 1)).toEqual([]);
      const number = ask({ one: [] });
      roll.onAnswer({ rollCall: number, worker: "leaving", consumes: false, held: ["a"] });
    }
  });

  test("leaves out what was heard of and is not counted yet", () => {
    const { roll, ask } = calls();
    roll.findLost(["a"], 1);
    ask({ one: [] });
    roll.onReceipt("a");
    for (let i = 0; i < 4; i++) {
      expect(roll.findLost(["a"], 1)).toEqual([]);
      ask({ one: [] });
    }
  });

  test("begins anew when the queue has messages, and is not judged before it is asked", () => {
    const { roll, ask } = calls();
    roll.findLost(["a"], 1);
    ask({ one: [] });
    expect(roll.findLost(["a"], 1)).toEqual([]);
    expect(roll.findLost(["a"], 1)).toEqual([]);
    ask({ one: [] });
    roll.clear();
    expect(roll.ask()).toBeNull();
    expect(roll.findLost(["a"], 1)).toEqual([]);
    ask({ one: [] });
    expect(roll.findLost(["a"], 1)).toEqual([]);
  });
});

describe("an answer to a roll call", () => {
  const token = signAttempt(KEY, rollCallId(QUEUE, 7));
  const answer = { roll_call: 7, task_queue: QUEUE, token, worker: "w", consumes: true, held: ["a"] };

  test("is read with the token of the question", () => {
    expect(readRollCall(answer, QUEUE, KEY)).toEqual({
      ...{ rollCall: 7, worker: "w", consumes: true, held: ["a"] },
    });
  });

  test.each([
    [{ roll_call: "7" }, "roll_call"],
    [{ roll_call: 8 }, "token"],
    [{ task_queue: "other" }, "task_queue"],
    [{ token: undefined }, "token"],
    [{ worker: "" }, "worker"],
    [{ worker: "w".repeat(201) }, "worker"],
    [{ consumes: 1 }, "consumes"],
    [{ held: undefined }, "held"],
    [{ held: [1] }, "held"],
    [{ held: Array.from({ length: 10_001 }, () => "a") }, "held"],
  ])("that differs in one field is refused (%#)", (more, why) => {
    const read = readRollCall({ ...answer, ...more }, QUEUE, KEY);
    expect(isRejection(read) ? read.message : "accepted").toContain(why);
  });

  test("of random fields is refused or read, and never throws", () => {
    const random = new SeededRandom("roll calls");
    const values = [undefined, null, 0, 7, -1, 0.5, 1e300, true, "", "w", QUEUE, token, [], ["a"], [[]], {}];
    let read = 0;
    for (let i = 0; i < 5_000; i++) {
      const fields: Record<string, unknown> = { ...answer };
      for (const name of Object.keys(answer))
        if (random.u32() % 3 === 0) fields[name] = values[random.u32() % values.length];
      const found = readRollCall(fields, QUEUE, KEY);
      if (isRejection(found)) continue;
      read++;
      expect(found.held.every((id) => typeof id === "string")).toBe(true);
    }
    expect(read).toBeGreaterThan(0);
  });
});
