// The one gate for values on their way into the store: what passes is stored faithfully, what does not is named.
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { byteLength, toStoredText } from "./json.ts";
import { isRejection, type Rejection } from "./rejection.ts";

fc.configureGlobal({ seed: 1 });

const limits = { bytesMax: 1_048_576, what: "result" };

function refusal(value: unknown): Rejection {
  const text = toStoredText(value, limits);
  if (!isRejection(text)) throw new Error(`was stored: ${text}`);
  return text;
}

class Point {
  x = 1;
}

const cycle: Record<string, unknown> = { a: { b: [] } };
(cycle["a"] as Record<string, unknown>)["again"] = cycle;

describe("what cannot be stored", () => {
  const kinds: [what: string, value: unknown, message: string][] = [
    ["a Map", new Map([[1, 2]]), "a Map"],
    ["a Set", new Set([1]), "a Set"],
    ["a Buffer", Buffer.from("x"), "a Buffer"],
    ["a Uint8Array", new Uint8Array(2), "a Uint8Array"],
    ["a class instance", new Point(), "a Point"],
    ["a function", () => 1, "a function"],
    ["a symbol", Symbol("x"), "a symbol"],
    ["a BigInt", 1n, "a BigInt"],
    ["NaN", Number.NaN, "NaN"],
    ["Infinity", Number.POSITIVE_INFINITY, "Infinity"],
    ["-Infinity", Number.NEGATIVE_INFINITY, "-Infinity"],
    ["a lone surrogate", "\ud800", "a string with a lone surrogate"],
    ["a promise", Promise.resolve(1), "a Promise"],
    ["an Error", new Error("x"), "an Error"],
    ["a regular expression", /x/, "a RegExp"],
    ["a generator", (function* () {})(), "a Generator"],
    ["an async generator", (async function* () {})(), "an AsyncGenerator"],
    ["an instance of a class without a name", new (class {})(), "an object of a class"],
  ];

  test.each(kinds)("%s is refused by its name", (_what, value, message) => {
    expect(refusal(value)).toMatchObject({
      code: "not_storable",
      path: "result",
      message: `result is ${message}, which cannot be stored`,
    });
  });

  test.each(kinds)("%s is found deep inside, with its path", (_what, value) => {
    expect(refusal({ files: [{ ok: 1 }, { meta: { odd: value } }] })).toMatchObject({
      code: "not_storable",
      path: "result.files[1].meta.odd",
    });
  });

  test.each(kinds)("%s is found as a member of a flat object and of a list", (_what, value) => {
    expect(refusal({ a: 1, b: value }).path).toBe("result.b");
    expect(refusal([1, value]).path).toBe("result[1]");
  });

  test("a cycle is found", () => {
    expect(refusal(cycle)).toMatchObject({ code: "not_storable", path: "result.a.again" });
  });

  test("the same object twice is no cycle", () => {
    const shared = { n: 1 };
    expect(toStoredText({ a: shared, b: [shared, shared] }, limits)).toBe(
      '{"a":{"n":1},"b":[{"n":1},{"n":1}]}',
    );
  });

  test("undefined in a list is refused, in an object left out, alone null", () => {
    expect(refusal([1, undefined]).message).toBe(
      "result[1] is undefined in an array, which cannot be stored",
    );
    expect(toStoredText({ a: undefined, b: 1 }, limits)).toBe('{"b":1}');
    expect(toStoredText(undefined, limits)).toBe("null");
  });

  test("a hole in a list is refused", () => {
    const holed = [1];
    holed[2] = 2;
    expect(refusal(holed).path).toBe("result[1]");
  });

  test("a key with a lone surrogate is refused, alone and deep inside", () => {
    expect(refusal({ "\udc00": 1 }).message).toContain("key has a lone surrogate");
    expect(refusal({ a: { "\udc00": 1 } }).path).toBe("result.a");
  });

  test("nesting beyond 100 levels is refused, and at 100 it is not", () => {
    const nested = (levels: number): unknown => (levels === 0 ? 1 : { in: nested(levels - 1) });
    expect(refusal(nested(101)).code).toBe("too_deep");
    expect(isRejection(toStoredText(nested(100), limits))).toBe(false);
    expect(refusal(nested(5_000)).code).toBe("too_deep");
  });

  test("too many bytes are refused, counted as UTF-8", () => {
    const small = { bytesMax: 12, what: "task 3" };
    expect(toStoredText("x".repeat(10), small)).toBe('"xxxxxxxxxx"');
    expect(toStoredText("x".repeat(11), small)).toMatchObject({ code: "too_large", path: "task 3" });
    expect(toStoredText("\u00e9".repeat(5), small)).toBe(`"${"\u00e9".repeat(5)}"`);
    expect(toStoredText("\u00e9".repeat(6), small)).toMatchObject({
      code: "too_large",
      message: "task 3 is 14 bytes; at most 12 are stored",
    });
  });
});

describe("what can be stored", () => {
  test("is the JSON text that JSON.stringify gives", () => {
    fc.assert(
      fc.property(fc.jsonValue(), (value) => {
        const text = toStoredText(value, limits);
        expect(JSON.parse(text as string)).toEqual(JSON.parse(JSON.stringify(value)));
      }),
    );
  });

  test("has toJSON applied, at any depth", () => {
    const at = new Date(0);
    expect(toStoredText({ at, list: [at] }, limits)).toBe(
      '{"at":"1970-01-01T00:00:00.000Z","list":["1970-01-01T00:00:00.000Z"]}',
    );
    expect(toStoredText({ toJSON: () => ({ a: undefined, b: 1 }) }, limits)).toBe('{"b":1}');
    expect(refusal({ x: { toJSON: () => new Map() } }).path).toBe("result.x");
    expect(refusal({ x: new Date(Number.NaN), y: { toJSON: () => Number.NaN } }).path).toBe("result.y");
  });

  test("keeps a key called __proto__ as data, and touches no prototype", () => {
    const value = JSON.parse('{"__proto__":{"polluted":1},"a":[{"__proto__":2}]}') as unknown;
    expect(toStoredText(value, limits)).toBe('{"__proto__":{"polluted":1},"a":[{"__proto__":2}]}');
    expect(({} as Record<string, unknown>)["polluted"]).toBeUndefined();
  });

  test("may have no prototype", () => {
    expect(toStoredText(Object.assign(Object.create(null), { a: 1 }), limits)).toBe('{"a":1}');
  });

  test("ignores what is not enumerable, inherited or named by a symbol", () => {
    const value = Object.defineProperty({ a: 1, [Symbol("s")]: 2 }, "hidden", { value: 3 });
    expect(toStoredText(value, limits)).toBe('{"a":1}');
  });

  test("keeps -0 as 0 and large numbers as they are", () => {
    expect(toStoredText([-0, 1e308, 0.1], limits)).toBe("[0,1e+308,0.1]");
  });
});

test("byteLength counts UTF-8", () => {
  expect(["", "a", "\u00e9", "\u20ac", "\u{1f600}"].map(byteLength)).toEqual([0, 1, 2, 3, 4]);
});
