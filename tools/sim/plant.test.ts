import { expect, test } from "vitest";
import { markedPlaces, plant } from "./plant.ts";

const inFunction = (code: string): string => `function f() {\n${code}\n}\n`;

function planted(code: string, change: string | readonly string[]): string | undefined {
  const places = new Map(markedPlaces(code).map((place) => [place, { file: "a.js", code }]));
  return plant({ name: "x", change }, places).get("a.js");
}

const CASES: readonly [code: string, template: string, planted: string][] = [
  ["// @plant x\na();", "", "// @plant x\n"],
  ["// @plant x\nif (a) b();", "if (true) $then", "// @plant x\nif (true) b();"],
  ["if (a) b();\n// @plant x\nelse if (c) d();", "$then", "if (a) b();\n// @plant x\nelse d();"],
  ["// @plant x\nif (a() === b) c();", "if ($left !== $right) $then", "// @plant x\nif (a() !== b) c();"],
  ["if (/* @plant x */ a > 0 || b) c();", "false", "if (/* @plant x */ false || b) c();"],
  ["if (a || /* @plant x */ !b.c()) d();", "false", "if (a || /* @plant x */ false) d();"],
  [
    "// @plant x\nconst a = b.min(c, d);",
    "const $key = $callee($1 + 1, $2);",
    "// @plant x\nconst a = b.min(c + 1, d);",
  ],
  ["// @plant x\nconst a = b?.shift();", "const $key = $object?.pop();", "// @plant x\nconst a = b?.pop();"],
  ["if (a || /* @plant x */ b?.c !== d) e();", "$object === d", "if (a || /* @plant x */ b === d) e();"],
  ["// @plant x\nreturn owe(a);", "$value;", "// @plant x\nowe(a);"],
  ["// @plant x\nreturn a ? b : c;", "return $else;", "// @plant x\nreturn c;"],
  ["return {\n// @plant x\na: b.c };", "$key: null", "return {\n// @plant x\na: null };"],
  ["// @plant x\nthis.a = b + c;", "$left = -($value);", "// @plant x\nthis.a = -(b + c);"],
  ["// @plant x\nfor (const a of b) c();", "$right.clear();", "// @plant x\nb.clear();"],
  ["f(a, /* @plant x */ b ? c : d);", "!$", "f(a, /* @plant x */ !b ? c : d);"],
];

test.each(CASES)("%s as %s", (code, template, result) => {
  expect(planted(inFunction(code), template)).toBe(inFunction(result));
});

test("a class member can be marked", () => {
  const code = "class A {\n// @plant x\n#isDue = true;\n}";
  expect(planted(code, "$key = false;")).toBe("class A {\n// @plant x\n#isDue = false;\n}");
});

test("a template has parts of the bug's other places, which stay as they are", () => {
  const code = "class A {\n// @plant x 2\nend(n) {}\nbegin(n) {\n// @plant x\nthis.log(n);\n}\n}";
  expect(planted(code, ["this.$key@2($1);", "$"])).toBe(code.replace("this.log(n);", "this.end(n);"));
});

test("a bug changes several places", () => {
  const code = inFunction("// @plant x 2\na();\n// @plant x\nb();");
  expect(planted(code, ["c();", "return $value;"])).toBe(
    inFunction("// @plant x 2\nreturn a();\n// @plant x\nc();"),
  );
});

test("a missing place, and a part that the node does not have, are errors", () => {
  expect(() => planted(inFunction("a();"), "")).toThrow('no place is marked "@plant x"');
  const code = inFunction("// @plant x\na();");
  expect(() => planted(code, "$test")).toThrow("a ExpressionStatement has no $test");
  expect(() => planted(code, "$key@2")).toThrow('there is no place 2, at "@plant x"');
});

test("the places of a file are listed", () => {
  expect(markedPlaces("// @plant one place\na(/* @plant two */ b);")).toEqual(["one place", "two"]);
});
