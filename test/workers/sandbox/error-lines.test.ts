// The line told of an error is a line of what the user wrote; where the engine does not know it, none is told.
import { expect, test } from "vitest";
import { attemptOf, runToEnd, testPool } from "../../fixtures/workers/sandbox-fixture.ts";

const pool = await testPool();

async function lineOf(expression: string, name = "one"): Promise<number | undefined> {
  const runs = [{ name, expression, timeoutMs: 30_000 }];
  const { end } = await runToEnd(pool, { ...attemptOf([]), runs });
  if (end.kind !== "failed") throw new Error(`it ended ${end.kind}`);
  return end.error.line;
}

test.each([
  ["a throw", 3, ["s => {", "  const a = 1;", "  throw new Error('x');", "}"]],
  ["lines before the function", 4, ["", "", "s => {", "  throw new Error('x');", "}"]],
  ["statements before the function", 3, ["const a = 1;", "s => {", "  throw new Error('x');", "}"]],
  ["a declared function", 2, ["function f(s) {", "  throw new Error('x');", "}"]],
  [
    "a helper, not its call",
    2,
    ["(() => {", "  const f = () => { throw 1n + 1; };", "  return s => f();", "})()"],
  ],
  ["after an await", 4, ["async s => {", "  await null;", "  const a = 1;", "  throw new Error('x');", "}"]],
  ["a native function", 3, ["s => {", "  const a = 1;", "  return JSON.parse('{');", "}"]],
  ["after a text of several lines", 4, ["s => {", "  const t = `a", "  b`;", "  throw new Error(t);", "}"]],
  ["a property of undefined", 3, ["s => {", "  const a = s;", "  return a.b.c;", "}"]],
  ["the same after a call", 4, ["s => {", "  const a = s;", "  Math.max(1);", "  return a.b.c;", "}"]],
  ["a method of undefined", 4, ["s => {", "  const a = s;", "  return a.b", "    .map((x) => x);", "}"]],
  ["an argument of a call", 4, ["s => {", "  return Math.max(", "    1,", "    s.a.b,", "  );", "}"]],
  ["a variable that is not there", 4, ["s => {", "  return {", "    a: 1,", "    b: foo,", "  };", "}"]],
  ["a getter", 3, ["s => {", "  class A { get x() {", "    return null.y; } }", "  return new A().x;", "}"]],
  ["a mistake of syntax", 3, ["s => {", "  const a = 1;", "  const = 2;", "}"]],
  ["a message that names a line", 3, ["s => {", "", "  throw new Error('one.js:99:1');", "}"]],
])("%s", async (_what, line, lines) => {
  expect(await lineOf(lines.join("\n"))).toBe(line);
  expect(await lineOf(lines.join("\r\n"))).toBe(line);
});

test.each([
  ["it could be one of two", ["s => {", "  if (s.z) return s.z.c;", "  return s.a.c;", "}"]],
  ["the name is computed", ["s => {", "  const k = 'c';", "  return s.a[k];", "}"]],
  ["the message has no name", ["s => {", "  const a = 1;", "  for (const x of a) ;", "}"]],
  ["what was thrown has no stack", ["s => {", "  throw 'text';", "}"]],
])("no line is told where %s", async (_what, lines) => {
  expect(await lineOf(lines.join("\n"))).toBeUndefined();
});

test("a run's name is not mistaken for that of our own code", async () => {
  const cyclic = "s => { const a = {}; a.a = a; return a; }";
  for (const name of ["prelude", "lude", "rondo"]) expect(await lineOf(cyclic, name)).toBeUndefined();
});
