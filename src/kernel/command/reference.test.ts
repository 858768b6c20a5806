// References: a text that is only one stands for the value, inside a text the value is inserted as text.
import { describe, expect, test } from "vitest";
import type { Json } from "../../std/json.ts";
import { decodeDefinition } from "../definition/parse-primitive.ts";
import { follow, parseReferences, resolveReferences } from "./reference.ts";

const RESULT: Json = {
  n: 7,
  text: "é",
  list: [{ id: "x" }],
  none: null,
  "odd key": 1,
  deep: { a: { b: true } },
};

function resolve(data: Json): unknown {
  const resolved = resolveReferences(data, ({ from, step, path }) => {
    if (from === "steps") return step === 0 ? follow(RESULT, path) : null;
    return follow(from === "input" ? { who: "me" } : 42, path);
  });
  return "value" in resolved ? resolved.value : `missing ${resolved.missing.text}`;
}

describe("a reference is replaced", () => {
  test.each([
    ["${steps[0].cmd_result}", RESULT],
    ["${steps[0].cmd_result.n}", 7],
    ["${steps[0].cmd_result.none}", null],
    ["${steps[0].cmd_result.list[0].id}", "x"],
    ["${steps[0].cmd_result.list}", [{ id: "x" }]],
    ['${steps[0].cmd_result["odd key"]}', 1],
    ["${input.who}", "me"],
    ["${task}", 42],
    ["n is ${steps[0].cmd_result.n}, ${input.who}", "n is 7, me"],
    ["${steps[0].cmd_result.deep} ${steps[0].cmd_result.none}", '{"a":{"b":true}} null'],
    ["$${input.who}", "${input.who}"],
    ["a $${b} ${task}", "a ${b} 42"],
    ["no reference: $ {x} {y} $", "no reference: $ {x} {y} $"],
  ])("%s", (text, value) => {
    expect(resolve(text)).toEqual(value);
    expect(resolve({ a: [text, 1], [text]: true })).toEqual({ a: [value, 1], [text]: true });
  });
});

describe("a reference leads nowhere", () => {
  test.each([
    "${steps[1].cmd_result}",
    "${steps[0].cmd_result.nothing}",
    "${steps[0].cmd_result.list[1]}",
    "${steps[0].cmd_result.n.m}",
    "${steps[0].cmd_result.text.length}",
    "${steps[0].cmd_result.__proto__}",
    "${steps[0].cmd_result.list.length}",
    "${input.constructor}",
    "${task.x}",
  ])("%s", (text) => {
    expect(resolve({ a: `x ${text}` })).toBe(`missing ${text.slice(2, -1)}`);
    expect(resolve([text])).toBe(`missing ${text.slice(2, -1)}`);
  });
});

describe("what looks like a reference and is none is refused", () => {
  test.each([
    "${}",
    "${x}",
    "${steps}",
    "${steps[0]}",
    "${steps[0].cmd_results}",
    "${steps[-1].cmd_result}",
    "${steps[00].cmd_result}",
    "${steps[0].cmd_result.}",
    "${steps[0].cmd_result..a}",
    "${steps[0].cmd_result[a]}",
    "${input.}",
    "${inputs.a}",
    "${ input.a }",
  ])("%s", (text) => {
    expect(decodeDefinition(() => parseReferences({ deep: [text] }, "cmd_data"), null)).toMatchObject({
      kind: "rejection",
      path: "cmd_data.deep.0",
    });
  });
});

test("each reference is found once, wherever it is", () => {
  const data = { a: "${input.a}", b: ["${input.a} ${task.b}", { c: "${steps[12].cmd_result.x}" }] };
  expect(parseReferences(data, "x").map(({ text }) => text)).toEqual([
    "input.a",
    "task.b",
    "steps[12].cmd_result.x",
  ]);
});
