// Schemas that would stand still for ever: each is given up in its thread, and whatever comes after it is checked.
import { afterEach, describe, expect, test } from "vitest";
import { systemClock } from "../../std/clock.ts";
import type { Json } from "../../std/json.ts";
import { isRejection, unwrap } from "../../std/rejection.ts";
import { SchemaChecker, type ValueCheck } from "./schema-checker.ts";

const checkers: SchemaChecker[] = [];
afterEach(async () => {
  for (const checker of checkers.splice(0)) await checker.close();
});

function open(deadlineMs?: number): SchemaChecker {
  const checker = new SchemaChecker({
    clock: systemClock(),
    ...(deadlineMs === undefined ? {} : { deadlineMs }),
  });
  checkers.push(checker);
  return checker;
}

async function checkOf(checker: SchemaChecker, schema: Json): Promise<ValueCheck> {
  return unwrap(await checker.of(schema, "input"));
}

/** `$ref`s that double twenty-eight times over. */
function doubling(): Json {
  const $defs: Record<string, Json> = { d28: { type: ["null", "number"] } };
  for (let i = 0; i < 28; i++)
    $defs[`d${i}`] = { allOf: [{ $ref: `#/$defs/d${i + 1}` }, { $ref: `#/$defs/d${i + 1}` }] };
  return { $defs, $ref: "#/$defs/d0" };
}

const BACKTRACKS = { type: "string", pattern: "^(a+)+$" };
const SLOW_TEXT = `${"a".repeat(60)}b`;

describe("a check", () => {
  test.each<[string, Json, Json, Json]>([
    ["by a pattern", { type: "string", pattern: "^a+$" }, "aa", "b"],
    ["by a reference", { $defs: { n: { type: "number" } }, $ref: "#/$defs/n" }, 1, "b"],
    ["of unique items", { type: "array", uniqueItems: true }, [1, 2], [1, 1]],
    ["by plain keywords", { type: "object", required: ["a"] }, { a: 1 }, {}],
  ])("%s takes what fits and refuses what does not", async (_, schema, good, bad) => {
    const check = await checkOf(open(), schema);
    expect(await check.check(good, "input")).toBeNull();
    expect(await check.check(bad, "input")).toMatchObject({ code: "invalid_input", path: "input" });
  });

  test("that takes too long is given up, the loop goes on meanwhile, and the next one is answered", async () => {
    const checker = open(1_500);
    const [slow, quick] = [await checkOf(checker, BACKTRACKS), await checkOf(checker, { format: "date" })];
    const order: string[] = [];
    const note = async (name: string, answer: Promise<unknown>): Promise<unknown> => {
      const given = await answer;
      order.push(name);
      return given;
    };
    const answers = [
      note("slow", slow.check(SLOW_TEXT, "input")),
      note("quick", quick.check("2026-11-15", "x")),
    ];
    let turns = 0;
    while (order.length === 0) {
      await new Promise((resolve) => setImmediate(resolve));
      turns++;
    }
    expect(turns).toBeGreaterThan(1);
    expect(await Promise.all(answers)).toEqual([
      expect.objectContaining({ code: "invalid_input", message: expect.stringContaining("took too long") }),
      null,
    ]);
    expect(order).toEqual(["slow", "quick"]);
    expect(await slow.check("aaa", "input")).toBeNull();
  });

  test("of many items by uniqueItems is given up", async () => {
    const check = await checkOf(open(300), { type: "array", uniqueItems: true });
    const items = Array.from({ length: 60_000 }, (_, i) => ({ i, text: "x" }));
    expect(await check.check(items, "input")).toMatchObject({ code: "invalid_input" });
  });

  test("by a small schema of a large value leaves the loop too", async () => {
    const schema = { type: "array", items: { anyOf: Array.from({ length: 400 }, (_, i) => ({ const: i })) } };
    const check = await checkOf(open(100), schema);
    expect(await check.check([1, 2, 3], "input")).toBeNull();
    expect(
      await check.check(
        Array.from({ length: 300_000 }, () => 399),
        "input",
      ),
    ).toMatchObject({
      message: expect.stringContaining("took too long"),
    });
  });
});

describe("a schema", () => {
  test("whose references double is refused with its definition", async () => {
    const made = await open(300).of(doubling(), "input");
    expect(made).toMatchObject({ code: "invalid_definition", path: "input" });
  });

  test("that is none is refused, by the thread as well", async () => {
    for (const schema of [{ $ref: "#/nowhere" }, { pattern: "a", $ref: "#/nowhere" }, 7] as Json[])
      expect(isRejection(await open().of(schema, "input"))).toBe(true);
  });

  test.each<[Json, string]>([
    [{ type: "strng" }, "input.type: must be of null, boolean, object"],
    [{ type: [] }, "input.type: must be of"],
    [{ properties: { a: { type: 5 } } }, "input.properties.a.type: must be of"],
    [{ properties: 5 }, "input.properties: must be an object"],
    [{ required: "a" }, "input.required: must be a list of names"],
    [{ enum: 5 }, "input.enum: must be a list"],
    [{ items: 7 }, "input.items: a JSON Schema is an object"],
    [{ anyOf: [{ minimum: "a" }] }, "input.anyOf[0].minimum: must be a number"],
    [{ anyOf: {} }, "input.anyOf: must be a list"],
    [{ maxLength: -1 }, "input.maxLength: must be a whole number from 0"],
    [{ pattern: "(" }, "input.pattern: is not a regular expression"],
    [{ patternProperties: { "(": true } }, 'input.patternProperties: "(" is not a regular expression'],
    [{ $ref: "#/nowhere" }, 'input: not a JSON Schema: Unresolved $ref "#/nowhere".'],
  ])("like %j is refused, and it is said where", async (schema, says) => {
    const refused = await open().of(schema, "input");
    expect(refused).toMatchObject({ code: "invalid_definition", message: expect.stringContaining(says) });
    expect(refused).not.toMatchObject({ message: expect.stringContaining("://") });
  });

  test.each<[Json]>([
    [true],
    [{ type: ["string", "null"], minLength: 1, pattern: "^\\p{L}+$" }],
    [{ items: [{ type: "number" }], additionalItems: false, exclusiveMinimum: true }],
    [{ properties: { type: { type: "string" }, enum: true }, required: [], "x-note": { type: 7 } }],
    [{ $schema: "http://json-schema.org/draft-07/schema#", format: "date", default: {}, const: 5 }],
  ])("like %j is taken", async (schema) => {
    expect(isRejection(await open().of(schema, "input"))).toBe(false);
  });

  test("without costly keywords needs no thread", async () => {
    const checker = open();
    const check = await checkOf(checker, { type: "object", properties: { a: { type: "string" } } });
    await checker.close();
    expect(await check.check({ a: "b" }, "input")).toBeNull();
    expect(await checker.of({ pattern: "a" }, "input")).toMatchObject({ code: "not_ready" });
  });
});
