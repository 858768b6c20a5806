import { expect, test } from "vitest";
import { parseReferences, planReferred } from "./reference.ts";

const planned = (...texts: readonly string[]) =>
  planReferred(
    parseReferences(
      texts.map((text) => `\${${text}}`),
      "cmd_data",
    ),
  );
const kept = (...texts: readonly string[]) =>
  [...planned(...texts).byStep].map(([step, parts]) => [step, parts.map(({ text }) => text)]);

test("a part inside another is found in that one, in whatever spelling and order", () => {
  const [all, inner, other] = [
    "steps[0].cmd_result.a",
    'steps[0].cmd_result["a"].b[0]',
    "steps[0].cmd_result.b",
  ];
  expect(kept(inner, all, other, 'steps[0].cmd_result["\\a"]')).toEqual([[0, [all, other]]]);
  const { keptFor } = planned(inner, all, other);
  expect([all, inner, other].map((text) => keptFor.get(text)?.text)).toEqual([all, all, other]);
});

test("parts of one step do not stand for those of another, nor one for what begins like it", () => {
  expect(
    kept("steps[0].cmd_result.a", "steps[1].cmd_result.a.b", "steps[0].cmd_result.ab", "input.a"),
  ).toEqual([
    [0, ["steps[0].cmd_result.a", "steps[0].cmd_result.ab"]],
    [1, ["steps[1].cmd_result.a.b"]],
  ]);
});

test("tens of thousands of references are no trouble", () => {
  const many = Array.from({ length: 10_000 }, (_, i) => `steps[0].cmd_result.a${i}`);
  expect(planned(...many).byStep.get(0)).toHaveLength(10_000);
  expect(kept(...many, "steps[0].cmd_result")).toEqual([[0, ["steps[0].cmd_result"]]]);
});
