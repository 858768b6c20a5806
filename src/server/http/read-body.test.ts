import { describe, expect, test } from "vitest";
import { scanJson } from "./read-body.ts";

const scan = (text: string, limits = { depthMax: 3, keysMax: 3 }) =>
  scanJson(Buffer.from(text), limits)?.code ?? null;

describe("the scan of a body", () => {
  test.each([
    ["[[[]]]", null],
    ["[[[[]]]]", "too_deep"],
    ['{"a":{"b":{"c":1}}}', null],
    ['{"a":{"b":{"c":{}}}}', "too_deep"],
    ['{"a":1,"b":2,"c":3}', null],
    ['{"a":1,"b":2,"c":3,"d":4}', "too_large"],
    ["[],[],[],[],[]", null],
    ['["[[[[[[", "::::::", "\\"[[[[[", "\\\\"]', null],
    ['["\\\\", [[[', "too_deep"],
    ['"unclosed [[[[[', null],
    ["", null],
  ])("of %s is %s", (text, expected) => {
    expect(scan(text)).toBe(expected);
  });

  test("takes a bomb of a megabyte in one go", () => {
    expect(scan("[".repeat(1_048_576), { depthMax: 110, keysMax: 10 })).toBe("too_deep");
    expect(scan('{"a":'.repeat(200_000), { depthMax: 1_000_000, keysMax: 1_000 })).toBe("too_large");
  });
});
