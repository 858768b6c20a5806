// The clean-up in a definition: its canonical form, the order of phases around it, and what is refused.
import { describe, expect, test } from "vitest";
import { expectRefusal, type RefusedCase } from "../../../test/fixtures/kernel/refused-definitions.ts";
import { unwrap } from "../../std/rejection.ts";
import { parseDefinition } from "./parse-definition.ts";
import { compilePlan } from "./plan.ts";

const parsed = (data: unknown) => unwrap(parseDefinition(data));
const two = (more: object, first: object = {}, last: object = {}) => ({
  name: "w",
  phases: [
    { name: "a", ...first },
    { name: "z", ...last },
  ],
  ...more,
});
const undo = { handlers: { h: { use: "u", compensate: { use: "undo" } } } };

test("the canonical form has durations in milliseconds and no defaults", () => {
  const compensate = {
    use: "undo",
    version: "~1.2",
    timeout: "30s",
    retry: { attempts: 3, max: "5m" },
    concurrency: 5,
  };
  const handlers = { h: { use: "u", compensate } };
  const form = parsed(two({ finally: "z", cleanupTimeout: "1h" }, { handlers }));
  expect(form.cleanupTimeout).toBeUndefined();
  expect(form.finally).toBe("z");
  expect(form.phases[0]?.handlers["h"]?.compensate).toEqual({
    use: "undo",
    version: "~1.2",
    timeout: 30_000,
    retry: { max: 300_000 },
    concurrency: 5,
  });
  expect(parsed(two({ onCancel: "z", cleanupTimeout: "5m" })).cleanupTimeout).toBe(300_000);
  expect(parsed(structuredClone(form))).toEqual(form);
});

test("phases of the clean-up are outside of the default order, wherever they stand", () => {
  const plan = compilePlan(
    parsed({
      name: "w",
      phases: [{ name: "x" }, { name: "a", ...undo }, { name: "y" }, { name: "b" }, { name: "z" }],
      onCancel: "x",
      onFailure: "y",
      finally: "z",
    }),
  );
  const next = plan.phases.map(({ name, next: index }) => [name, plan.phases[index]?.name]);
  expect(plan.phases[plan.first]?.name).toBe("a");
  expect(Object.fromEntries(next)).toEqual({
    a: "b",
    b: undefined,
    x: undefined,
    y: undefined,
    z: undefined,
  });
  expect([plan.onCancel?.name, plan.onFailure?.name, plan.finally?.name]).toEqual(["x", "y", "z"]);
  expect(plan.compensations.map(({ name, compensates }) => [name, compensates])).toEqual([
    ["a~compensate", "a"],
  ]);
  expect(plan.byName.get("a~compensate")?.handlers).toMatchObject([
    { name: "h", use: "undo", compensates: true },
  ]);
  expect(plan.phases.some(({ name }) => name.includes("~"))).toBe(false);
});

test("one phase can be for cancel and for failure", () => {
  expect(parsed(two({ onCancel: "z", onFailure: "z" }))).toMatchObject({ onCancel: "z", onFailure: "z" });
});

test("a repair behind a clean-up phase is reached by default order all the same", () => {
  const phases = [{ name: "a", onError: "fix" }, { name: "z" }, { name: "fix" }];
  expectRefusal(
    { name: "w", phases, finally: "z" },
    'phase "fix": repairs "a" by onError, but is also reached after "a"',
  );
});

describe("refused are", () => {
  const cases: RefusedCase[] = [
    ["an unknown phase", two({ onCancel: "q" }), 'onCancel: names the phase "q", which does not exist'],
    ["no name", two({ finally: 7 }), "finally: 7 is not a name"],
    [
      "finally that is onFailure",
      two({ finally: "z", onFailure: "z" }),
      'finally: names the phase "z", which onCancel or onFailure runs already',
    ],
    ["only clean-up phases", two({ finally: "z", onCancel: "a" }), "phases: every phase is a clean-up phase"],
    [
      "a clean-up phase with next",
      two({ finally: "z" }, {}, { next: "a" }),
      'phase "z": has next, which has no effect: finally runs this phase',
    ],
    [
      "a clean-up phase that is final",
      two({ onCancel: "z" }, {}, { final: true }),
      'phase "z": has final, which has no effect: onCancel',
    ],
    [
      "a clean-up phase with onError",
      two({ onCancel: "z" }, {}, { onError: "a" }),
      'phase "z": has onError, which has no effect: onCancel',
    ],
    [
      "a way into the clean-up",
      two({ finally: "z" }, { next: "z" }),
      'phase "a": leads to the phase "z", which runs only',
    ],
    [
      "a repair in the clean-up",
      two({ finally: "z" }, { onError: "z", final: true }),
      'phase "a": leads to the phase "z"',
    ],
    [
      "a decision for the clean-up",
      two({ finally: "z" }, { next: { use: "n", among: ["a", "z"] } }),
      'phase "a": leads to the phase "z"',
    ],
    [
      "a clean-up that is undone",
      two({ finally: "z" }, {}, undo),
      'phase "z" handler "h".compensate: cannot be used',
    ],
    [
      "a time without a clean-up",
      two({ cleanupTimeout: "1m" }),
      "cleanupTimeout: can only be used if the workflow has a clean-up",
    ],
    ["a time of nothing", two({ finally: "z", cleanupTimeout: 0 }), "cleanupTimeout: "],
    [
      "compensate without code",
      two({}, { handlers: { h: { use: "u", compensate: {} } } }),
      'phase "a" handler "h".compensate.use: nothing is not',
    ],
    [
      "compensate with tasks of its own",
      two({}, { handlers: { h: { use: "u", compensate: { use: "v", tasks: [1] } } } }),
      'phase "a" handler "h".compensate: has the unknown field "tasks"',
    ],
    [
      "a sleep that is undone",
      two({}, { handlers: { h: { sleep: 1, compensate: { use: "v" } } } }),
      'phase "a" handler "h".compensate: cannot be used with a sleep or a wait',
    ],
  ];
  test.each(cases)("%s", (_what, data, refusal) => expectRefusal(data, refusal));
});
