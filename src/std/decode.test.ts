import { describe, expect, expectTypeOf, test } from "vitest";
import {
  checked,
  type Decoded,
  decode,
  decodeOrNull,
  flag,
  integer,
  jsonFields,
  listOf,
  mapOf,
  object,
  oneOf,
  optional,
  orElse,
  orNull,
  parsed,
  refusal,
  secret,
  show,
  text,
} from "./decode.ts";
import { reject } from "./rejection.ts";

const order = object({
  id: text({ min: 1, max: 10 }),
  count: integer(1, 5),
  isPaid: optional(flag),
  note: orNull(text()),
  kind: orElse(oneOf(["new", "old"]), "new"),
  tags: optional(mapOf(text({ max: 3 }))),
  lines: listOf(object({ sku: text() }), { max: 2 }),
});
const ORDER = { id: "o1", count: 2, note: null, lines: [{ sku: "a" }] };

describe("a decoder", () => {
  test("gives the value with its type; fields that are missing stay away", () => {
    const decoded = decode(order, ORDER);
    expect(decoded).toEqual({ ...ORDER, kind: "new" });
    expect(Object.keys(decoded)).not.toContain("isPaid");
    expectTypeOf<Decoded<typeof order>["isPaid"]>().toEqualTypeOf<boolean | undefined>();
    expectTypeOf<Decoded<typeof order>["note"]>().toEqualTypeOf<string | null>();
    expectTypeOf<Decoded<typeof order>["lines"][number]["sku"]>().toEqualTypeOf<string>();
  });

  test.each([
    [{ ...ORDER, id: "" }, "id", 'id: "" is not a text of 1 to 10 characters'],
    [{ ...ORDER, id: "\ud800" }, "id", 'id: "\\ud800" is not a text of 1 to 10 characters'],
    [{ ...ORDER, count: 6 }, "count", "count: 6 is not a whole number from 1 to 5"],
    [{ ...ORDER, count: 1.5 }, "count", "count: 1.5 is not a whole number from 1 to 5"],
    [{ ...ORDER, isPaid: null }, "isPaid", "isPaid: null is not true or false"],
    [{ ...ORDER, note: undefined }, "note", "note: nothing is not a text"],
    [{ ...ORDER, kind: "odd" }, "kind", 'kind: "odd" is not one of "new", "old"'],
    [{ ...ORDER, tags: { a: "long" } }, "tags.a", 'tags.a: "long" is not a text of 0 to 3 characters'],
    [{ ...ORDER, lines: [{ sku: "a" }, {}] }, "lines[1].sku", "lines[1].sku: nothing is not a text"],
    [{ ...ORDER, lines: [1, 2, 3] }, "lines", "lines: it has 3 entries; at most 2 are allowed"],
    [[], undefined, "[] is not an object"],
    [null, undefined, "null is not an object"],
  ])("refuses %j and names the path", (value, path, message) => {
    const rejection = decode(order, value);
    expect(rejection).toMatchObject({ kind: "rejection", code: "invalid_input", message });
    expect((rejection as { path?: string }).path).toBe(path);
    expect(decodeOrNull(order, value)).toBeNull();
  });

  test("refuses a field that it does not know, and says which one may be meant", () => {
    expect(decode(order, { ...ORDER, cuont: 1 })).toMatchObject({
      code: "unknown_field",
      path: "cuont",
      hint: 'did you mean "count"? known are: id, count, isPaid, note, kind, tags, lines',
    });
    const [dropping, keeping] = (["dropped", "kept"] as const).map((others) =>
      object({ a: flag }, { others }),
    );
    expect(decode(dropping as NonNullable<typeof dropping>, { a: true, b: 1 })).toEqual({ a: true });
    expect(decode(keeping as NonNullable<typeof keeping>, { a: true, b: 1 })).toEqual({ a: true, b: 1 });
  });

  test("says that a number is written without quotes", () => {
    expect(decode(integer(), "7", { path: "n" })).toMatchObject({ hint: "write it without quotes" });
  });

  test("takes the code of a check, and else the one it is given", () => {
    const even = checked(integer(), (n) => (n % 2 === 0 ? null : reject("conflict", "it is odd")));
    expect(decode(even, 3, { path: "n" })).toMatchObject({
      code: "conflict",
      message: "n: it is odd",
      path: "n",
    });
    expect(decode(even, "x", { path: "n", code: "invalid_definition" })).toMatchObject({
      code: "invalid_definition",
    });
    expect(decode(even, 4)).toBe(4);
  });

  test("passes on errors that are no refusals", () => {
    const broken = (): never => {
      throw new TypeError("a bug");
    };
    expect(() => decode(broken, 1)).toThrow(TypeError);
    expect(() => decodeOrNull(broken, 1)).toThrow(TypeError);
  });

  test("cuts long values in its texts", () => {
    expect(show("x".repeat(100))).toHaveLength(60);
    expect(show(undefined)).toBe("nothing");
    expect(show(() => {})).toBe("a function");
    expect(show(10n)).toBe("a bigint");
    expect(show(Number.NaN)).toBe("NaN");
  });

  test("shows the type of values that have no JSON, and of those that are nested too deeply", () => {
    const cycle: { self?: unknown } = {};
    cycle.self = cycle;
    expect(show(cycle)).toBe("an object");
    const deep = JSON.parse(`${"[".repeat(100_000)}${"]".repeat(100_000)}`) as unknown;
    expect(decode(order, { ...ORDER, id: deep })).toMatchObject({ code: "invalid_input", path: "id" });
  });

  test("reads the fields of a JSON text", () => {
    expect(jsonFields('{"a":1}')).toEqual({ a: 1 });
    for (const text of ["[]", "5", "null", "<html>", ""]) expect(jsonFields(text)).toBeNull();
  });

  test("never shows a secret", () => {
    const token = secret("a token", (value) => value === "right");
    expect(decode(token, "hunter2", { path: "token" })).toMatchObject({
      message: "token: this is not a token",
    });
    expect(decode(token, "right")).toBe("right");
  });

  test("has a path for errors of the whole, and takes the path of a parser's rejection", () => {
    expect(decode(order, 1, { whole: "body" })).toMatchObject({
      path: "body",
      message: "body: 1 is not an object",
    });
    expect(refusal(order, ORDER)).toBeNull();
    const stored = parsed(integer(), (n) =>
      n === 1 ? "one" : reject("too_large", ".a.b is 9 bytes", { path: ".a.b" }),
    );
    expect(decode(stored, 1)).toBe("one");
    expect(decode(stored, 2, { path: "n" })).toMatchObject({
      code: "too_large",
      path: "n.a.b",
      message: "n.a.b: it is 9 bytes",
    });
  });

  test("drops ignored fields, and does not name them as known", () => {
    const read = object({ a: flag }, { ignores: ["b"] });
    expect(decode(read, { a: true, b: 1 })).toEqual({ a: true });
    expect(decode(read, { a: true, colour: 1 })).toMatchObject({ path: "colour", hint: "known are: a" });
  });

  test("does not take inherited fields for known ones", () => {
    expect(decode(object({}), JSON.parse('{"constructor":1}'))).toMatchObject({ code: "unknown_field" });
    expect(decode(mapOf(integer()), JSON.parse('{"__proto__":1}'))).toEqual(JSON.parse('{"__proto__":1}'));
  });
});
