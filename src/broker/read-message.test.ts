import { describe, expect, test } from "vitest";
import { encodeAttempt, signAttempt } from "../protocol/attempt-id.ts";
import { readFields } from "../protocol/read-body.ts";
import { isRejection } from "../std/rejection.ts";
import { readItems, readTaskReport } from "./read-message.ts";

const KEY = "k";
const AT = {
  ...{ execution: "ex_1", phase: "work", visit: 1, handler: "work", round: 1 },
  ...{ epoch: 3, task: 4, attempt: 1, claim: 0 },
};
const word = (more: object = {}, at = AT) => {
  const attempt = encodeAttempt(at);
  return {
    workflow_id: "ex_1",
    phase: "work",
    handler: "work",
    attempt,
    token: signAttempt(KEY, attempt),
    ...more,
  };
};
const signed = (at: typeof AT) => ({
  attempt: encodeAttempt(at),
  token: signAttempt(KEY, encodeAttempt(at)),
});
const refusal = (value: unknown) => (isRejection(value) ? value.message : "accepted");

describe("a finished message", () => {
  test("gives the attempt and its outcome", () => {
    expect(readTaskReport(word({ task: 4, status: "done", result: { a: 1 }, ms: 12 }), KEY)).toEqual({
      at: AT,
      ms: 12,
      outcome: { status: "done", payload: '{"a":1}' },
    });
  });

  test("without a result is one of null; an error has whatever shape it has", () => {
    expect(readTaskReport(word({ status: "done" }), KEY)).toMatchObject({ outcome: { payload: "null" } });
    for (const error of ["broken", { message: "broken" }, { name: "E", message: "broken", fatal: true }])
      expect(JSON.stringify(readTaskReport(word({ status: "failed", error }), KEY))).toContain("broken");
    expect(
      readTaskReport(word({ status: "failed", error: { message: "x", fatal: true } }), KEY),
    ).toMatchObject({
      outcome: { fatal: true },
    });
  });

  test.each([
    [{ attempt: undefined }, "lacks"],
    [{ token: undefined }, "lacks"],
    [{ attempt: "nonsense" }, "not the id of an attempt"],
    [{ token: "x" }, "not the token"],
    [{ workflow_id: "ex_2" }, "workflow_id"],
    [{ phase: "other" }, "phase"],
    [{ task: 5 }, "task"],
    [{ status: "perhaps" }, "status"],
    [{ status: undefined }, "status"],
  ])("with %j is refused", (more, why) => {
    expect(refusal(readTaskReport(word({ status: "done", ...more }), KEY))).toContain(why);
  });

  test("whose result cannot be stored fails its attempt for good", () => {
    const result = "x".repeat(300_000);
    expect(readTaskReport(word({ status: "done", result }), KEY)).toMatchObject({
      outcome: { status: "failed", fatal: true },
    });
  });
});

describe("an enumerated message", () => {
  const enumeration = { ...AT, task: -1 };
  test("needs no status, and counts the tasks", () => {
    expect(readTaskReport(word({ total: 3 }, enumeration), KEY)).toMatchObject({
      outcome: { status: "done", total: 3 },
    });
    for (const said of [{}, { status: "done" }])
      expect(refusal(readTaskReport(word(said, enumeration), KEY))).toContain("`total` is missing");
    expect(refusal(readTaskReport(word({ total: -1 }, enumeration), KEY))).toContain("total");
  });

  test("with an error is not done", () => {
    const failed = word({ status: "failed", error: { message: "no list" } }, enumeration);
    expect(readTaskReport(failed, KEY)).toMatchObject({ outcome: { status: "failed" } });
    expect(refusal(readTaskReport(word({ error: { message: "x" } }, enumeration), KEY))).toContain("status");
  });
});

describe("an intake message", () => {
  const item = (more: object = {}) => ({
    workflow_id: "ex_1",
    phase: "work",
    handler: "work",
    position: 0,
    data: 1,
    ...more,
  });
  test("may say which attempt it is of", () => {
    expect(readItems(item(signed(AT)), AT, KEY)).toHaveLength(1);
  });

  test("gives the task as it is stored", () => {
    expect(readItems(item({ data: { a: 1 }, key: "k" }), AT, KEY)).toEqual([
      {
        position: 0,
        task: '{"a":1}',
        key: "k",
        identity: null,
        after: null,
      },
    ]);
    const many = readItems(
      item({ position: 7, items: [{ data: 1 }, { data: null, identity: "i" }] }),
      AT,
      KEY,
    );
    expect(many).toEqual([
      { position: 7, task: "1", key: null, identity: null, after: null },
      { position: 8, task: "null", key: null, identity: "i", after: null },
    ]);
    expect(refusal(readItems(item({ items: [] }), AT, KEY))).toContain("`items`");
    expect(refusal(readItems(item({ items: [{ data: 1, key: 2 }] }), AT, KEY))).toContain("`key`");
  });

  test.each([
    [{ workflow_id: "other" }, "workflow_id"],
    [{ position: undefined }, "position"],
    [{ position: -1 }, "position"],
    [{ key: 5 }, "key"],
    [{ attempt: encodeAttempt(AT) }, "token"],
    [{ attempt: encodeAttempt(AT), token: "x".repeat(43) }, "token"],
    [signed({ ...AT, claim: AT.claim + 1 }), "attempt"],
    [{ data: "x".repeat(70_000) }, "bytes"],
  ])("with %j is refused", (more, why) => {
    expect(refusal(readItems(item(more), AT, KEY))).toContain(why);
  });
});

test.each([
  ["{", "not JSON"],
  ["[]", "not a JSON object"],
  ["null", "not a JSON object"],
])("the body %j is refused", (text, why) => {
  expect(refusal(readFields(Buffer.from(text)))).toContain(why);
});

test("a message's own field `kind` does not make it a rejection", () => {
  expect(readFields(Buffer.from('{"kind":"rejection","cmd_result":1}'))).toEqual({ cmd_result: 1 });
});
