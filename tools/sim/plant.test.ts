import { expect, test } from "vitest";
import { markedPlaces, plant } from "./plant.ts";

const marked = (code: string): string => `function f() {\n${code}\n}\n`;

const CASES: readonly [code: string, template: string, planted: string][] = [
  ["// @plant x\na();", "", "// @plant x\n"],
  ["// @plant x\nif (a) b();", "if (true) $then", "// @plant x\nif (true) b();"],
  ["if (/* @plant x */ a > 0 || b) c();", "false", "if (/* @plant x */ false || b) c();"],
  ["if (a || /* @plant x */ !b.c()) d();", "false", "if (a || /* @plant x */ false) d();"],
  [
    "// @plant x\nconst a = b.min(c, d);",
    "const $key = $callee($1 + 1, $2);",
    "// @plant x\nconst a = b.min(c + 1, d);",
  ],
  ["// @plant x\nreturn owe(a);", "$value;", "// @plant x\nowe(a);"],
  ["return {\n// @plant x\na: b.c };", "$key: null", "return {\n// @plant x\na: null };"],
  ["// @plant x\nthis.a = b;", "$left = -$value;", "// @plant x\nthis.a = -b;"],
  ["f(a, /* @plant x */ b ? c : d);", "!$", "f(a, /* @plant x */ !b ? c : d);"],
];

test.each(CASES)("%s as %s", (code, template, planted) => {
  expect(plant(marked(code), "x", template)).toBe(marked(planted));
});

test("a class member can be marked", () => {
  const code = "class A {\n// @plant x\n#isDue = true;\n}";
  expect(plant(code, "x", "$key = false;")).toBe("class A {\n// @plant x\n#isDue = false;\n}");
});

test("a place that is not there, and a part that the node does not have, are errors", () => {
  expect(() => plant(marked("a();"), "x", "")).toThrow('no place is marked "@plant x"');
  expect(() => plant(marked("// @plant x\na();"), "x", "$test")).toThrow(
    "a ExpressionStatement has no $test",
  );
});

test("the places of a file are listed", () => {
  expect(markedPlaces("// @plant one place\na(/* @plant two */ b);")).toEqual(["one place", "two"]);
});
