// The one rule for names that are composed at run time, and how they are written inside of other ids.
import { describe, expect, test } from "vitest";
import { isRejection } from "../../std/rejection.ts";
import {
  cutToBytes,
  decodeName,
  encodeName,
  refuseExecutionId,
  refuseName,
  versionOfId,
  whyNoName,
} from "./names.ts";

const ODD = [
  "a/b",
  "ä ö",
  "100%",
  "?#&",
  "日本語",
  "🚀",
  "..a",
  "%2F",
  "%",
  'say "hi" \\',
  "it's (all) *fine*!",
  "a.b.c",
  "_x",
  " ",
  "x".repeat(200),
  "語".repeat(66),
];

describe("a name that is composed at run time", () => {
  test.each(ODD)("can be %j", (name) => {
    expect(whyNoName(name)).toBeNull();
    expect(refuseExecutionId(name)).toBeNull();
  });

  test.each([
    ["", "is empty"],
    [7, "is not a text (its type is number)"],
    [null, "is not a text (its type is null)"],
    [undefined, "is missing"],
    ["x".repeat(201), "has 201 bytes; at most 200 are allowed"],
    ["語".repeat(67), "has 201 bytes; at most 200 are allowed"],
    ["a\nb", "holds the control character U+000A"],
    ["a\u0000", "holds the control character U+0000"],
    ["a\u009fb", "holds the control character U+009F"],
    ["a\u200bb", "holds the format character U+200B"],
    ["\u202eevil", "holds the format character U+202E"],
    ["\ufeffa", "holds the format character U+FEFF"],
    ["a\ud800", "holds an unpaired surrogate (U+D800)"],
    ["\udfffa", "holds an unpaired surrogate (U+DFFF)"],
  ])("cannot be %j", (name, why) => {
    expect(whyNoName(name)).toBe(why);
    const refused = refuseName(name, "name", "a signal's name");
    expect(isRejection(refused) && refused.message).toContain(`is not a signal's name: it ${why}`);
  });

  test.each([".", "..", "a~b", "~"])("can be %j, but an execution's id cannot", (name) => {
    expect(whyNoName(name)).toBeNull();
    expect(refuseExecutionId(name)?.code).toBe("invalid_input");
  });
});

describe("a name inside of another id", () => {
  test.each(ODD)("%j is written without dots, slashes and spaces, and read back", (name) => {
    const encoded = encodeName(name);
    expect(encoded).toMatch(/^(?:[A-Za-z0-9_:~-]|%[0-9A-F]{2})+$/);
    expect(decodeName(encoded)).toBe(name);
  });

  test("is as it was if every version of Rondo takes it", () => {
    for (const id of ["ex_1:a~b-c", "nightly-2026-11-15", "0"]) {
      expect(encodeName(id)).toBe(id);
      expect(versionOfId(id)).toBe(1);
    }
    expect(versionOfId("a/b")).toBe(4);
  });

  test.each(["a/b", "%2f", "%41", "a.b", "%", "%E4", "a b", ""])("is read strictly: %j is none", (text) => {
    expect(decodeName(text)).toBeNull();
  });
});

test("a text is cut between characters", () => {
  expect(cutToBytes("日本語", 6)).toBe("日本");
  expect(cutToBytes("日本語", 8)).toBe("日本");
  expect(cutToBytes("🚀🚀", 7)).toBe("🚀");
  expect(cutToBytes("plain", 75)).toBe("plain");
});
