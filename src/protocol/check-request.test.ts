import { describe, expect, test } from "vitest";
import { isRejection } from "../std/rejection.ts";
import { checkControl, checkEventsOptions, checkList, checkSignal, checkStart } from "./check-request.ts";

const refusal = (value: unknown) => (isRejection(value) ? value.message : "accepted");

describe("options of a start", () => {
  test.each([
    [null, "options: null is not an object"],
    [{ priority: 3 }, "priority: a start has no such field"],
    [{ ID: "x" }, "ID: a start has no such field"],
    [{ project: null }, "project: null is not a project's name"],
    [{ project: "a/b" }, 'project: "a/b" is not a project\'s name'],
    [{ id: 123 }, "id: is not an execution id: it is not a text (its type is number)"],
    [
      { id: "a~b" },
      'id: "a~b" is not an execution id: it contains a ~, which only the engine\'s own ids have',
    ],
    [{ tags: null }, "tags: null is not an object"],
    [{ tags: { a: 1 } }, "tags.a: is not a tag: it is not a text (its type is number)"],
    [
      { tags: Object.fromEntries(Array.from({ length: 65 }, (_, i) => [`t${i}`, ""])) },
      "tags: it has 65 entries; at most 64 are allowed",
    ],
    [{ startAt: null }, "startAt: null is not a time"],
    [{ startAt: "5" }, 'startAt: "5" is not a time'],
    [{ deadline: Number.NaN }, "deadline: NaN is not a time"],
    [{ deadline: 1e300 }, "deadline: 1e+300 is not a time"],
    [{ startAt: 9_000, deadline: 9_000 }, "deadline: must be after the start time"],
  ])("%j are refused", (options, message) => {
    expect(refusal(checkStart(options))).toBe(message);
  });

  test("are taken as they are", () => {
    const at = new Date(5_000);
    expect(
      checkStart({ id: "x:1", project: "p", tags: { team: "blue" }, startAt: at, deadline: 9_000 }),
    ).toEqual({ id: "x:1", project: "p", tags: { team: "blue" }, startAt: 5_000, deadline: 9_000 });
    expect(checkStart({ id: "x:1" })).toEqual(checkStart({ id: "x:1", tags: {} }));
    expect(checkStart({ id: undefined })).toEqual(checkStart({}));
    expect(checkStart({})).toEqual({
      id: undefined,
      project: "default",
      tags: {},
      startAt: undefined,
      deadline: undefined,
    });
  });
});

test("options of pause, resume, cancel and retry are short texts", () => {
  expect(refusal(checkControl({ by: 10n }))).toBe("by: a bigint is not a text of 1 to 200 characters");
  expect(refusal(checkControl({ reason: "x".repeat(3_000) }))).toBe(
    `reason: "${"x".repeat(58)}… is not a text of 1 to 2000 characters`,
  );
  expect(refusal(checkControl({ id: {} }))).toBe("id: {} is not a text of 1 to 200 characters");
  expect(checkControl({})).toEqual({ id: undefined, by: "api", reason: null, force: false });
});

test("a signal has a name and, if any, a short id", () => {
  expect(refusal(checkSignal("a\nb", undefined))).toBe(
    'name: "a\\nb" is not a signal\'s name: it holds the control character U+000A',
  );
  expect(checkSignal("1st / für Anna", undefined)).toBeNull();
  expect(refusal(checkSignal("go", "x".repeat(201)))).toMatch("is not a text of 1 to 200 characters");
  expect(checkSignal("go", "a")).toBeNull();
});

test("events are read from a sequence number", () => {
  for (const from of [Number.NaN, 0, 1.5, "1", null])
    expect(() => checkEventsOptions({ from })).toThrow("from");
  checkEventsOptions({ from: 1 });
});

test("options of a list", () => {
  for (const options of [
    { limit: Number.NaN },
    { limit: 0 },
    { limit: 1_001 },
    { status: {} },
    { status: "open" },
    { status: [] },
    { cursor: "abc" },
    { project: "" },
    { tag: "x" },
    { q: 7 },
    { tags: { team: 1 } },
    null,
  ]) {
    expect(isRejection(checkList(options)), JSON.stringify(options)).toBe(true);
  }
  expect(checkList({ workflow: "w", cursor: "12", limit: 3 })).toEqual({
    filter: { workflow: "w" },
    choice: { status: [], since: 0, until: Number.POSITIVE_INFINITY, top: false, waiting: false },
    q: "",
    tags: {},
    max: 3,
    before: 12,
  });
});
