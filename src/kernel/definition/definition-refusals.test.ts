// What is no definition is refused, with the place and the reason. Handlers: handler-refusals.test.ts.
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { expectRefusal, one, type RefusedCase } from "../../../test/fixtures/kernel/refused-definitions.ts";
import { parseDefinition } from "./parse-definition.ts";

// The same run every time; change the seed to look elsewhere.
fc.configureGlobal({ seed: 1 });

describe("a definition is refused", () => {
  const cases: RefusedCase[] = [
    ["that is no object", 7, "definition: 7 is not an object"],
    ["that is a list", [], "definition: [] is not an object"],
    ["that is null", null, "definition: null is not an object"],
    ["of another version", { ...one({}), rondo: 3 }, "rondo: version 3 is not known"],
    ["with an unknown field", { ...one({}), nmae: "x" }, 'definition: has the unknown field "nmae"'],
    ["without a name", { phases: [{ name: "a" }] }, "name: nothing is not a name"],
    ["with a name that starts with a digit", { ...one({}), name: "1a" }, 'name: "1a" is not a name'],
    ["with a name with a dot", { ...one({}), name: "a.b" }, 'name: "a.b" is not a name'],
    [
      "with a name of 41 letters",
      { ...one({}), name: "a".repeat(41) },
      `name: "${"a".repeat(41)}" is not a name`,
    ],
    ["with an empty name", { ...one({}), name: "" }, 'name: "" is not a name'],
    ["without phases", { name: "w" }, "phases: a workflow needs at least one phase"],
    [
      "with an empty list of phases",
      { name: "w", phases: [] },
      "phases: a workflow needs at least one phase",
    ],
    [
      "with 1,001 phases",
      { name: "w", phases: Array.from({ length: 1_001 }, (_, i) => ({ name: `p${i}` })) },
      "phases: 1001 phases; at most 1000 are allowed",
    ],
    ["with a phase that is no object", { name: "w", phases: ["a"] }, 'phases[0]: "a" is not an object'],
    ["with an unknown field in a phase", one({ nxt: "b" }), 'phases[0]: has the unknown field "nxt"'],
    ["with a nameless phase", { name: "w", phases: [{}] }, "phases[0].name: nothing is not a name"],
    [
      "with two phases of one name",
      { name: "w", phases: [{ name: "a" }, { name: "a" }] },
      'phase "a": is defined twice',
    ],
    [
      "with a phase named returns",
      { name: "w", phases: [{ name: "returns" }] },
      'phase "returns": the phase name "returns" is reserved',
    ],
    ["with handlers as a list", one({ handlers: [] }), 'phase "a".handlers: [] is not an object of handlers'],
    [
      "with a bad handler name",
      one({ handlers: { "x y": {} } }),
      'phase "a" handler name: "x y" is not a name',
    ],
    [
      "with a handler named next",
      one({ handlers: { next: { use: "u" } } }),
      'phase "a": the handler name "next" is reserved',
    ],
    ["with another final", one({ final: "done" }), 'phase "a".final: "done" is not true or "failed"'],
    [
      "with a final phase that has a next",
      one({ final: true, next: "a" }),
      'phase "a": is final and has a next',
    ],
    [
      "with no visits",
      one({ maxVisits: 0 }),
      'phase "a".maxVisits: 0 is not a whole number from 1 to 1000000',
    ],
    [
      "with absurd visits",
      one({ maxVisits: 1e7 }),
      'phase "a".maxVisits: 10000000 is not a whole number from 1 to 1000000',
    ],
    ["with an unknown next", one({ next: "b" }), 'phase "a".next: names the phase "b", which does not exist'],
    [
      "with returns as next",
      { ...one({ next: "returns" }), returns: { use: "r" } },
      'phase "a".next: names the phase "returns", which does not exist',
    ],
    ["with a next that is a number", one({ next: 5 }), 'phase "a".next: 5 is not an object'],
    [
      "with a decision without among",
      one({ next: { use: "n" } }),
      'phase "a".next.among: a decision must name the phases that it can choose',
    ],
    [
      "with an empty among",
      one({ next: { use: "n", among: [] } }),
      'phase "a".next.among: a decision must name the phases that it can choose',
    ],
    [
      "with an unknown phase in among",
      one({ next: { use: "n", among: ["a", "zz"] } }),
      'phase "a".next.among: names the phase "zz", which does not exist',
    ],
    [
      "with a decision without code",
      one({ next: { among: ["a"] } }),
      'phase "a".next.use: nothing is not a handler\'s name',
    ],
    [
      "with an unknown onError",
      one({ onError: "b" }),
      'phase "a".onError: names the phase "b", which does not exist',
    ],
    ["with onError to itself", one({ onError: "a" }), 'phase "a".onError: names the phase itself'],
    [
      "where an onError target is reached by default order",
      { name: "w", phases: [{ name: "a", onError: "b" }, { name: "b" }] },
      'phase "b": repairs "a" by onError, but is also reached after "a" by default order',
    ],
    [
      "where an onError target is the first phase",
      {
        name: "w",
        phases: [
          { name: "b", final: true },
          { name: "a", onError: "b" },
        ],
      },
      'phase "b": repairs "a" by onError, but is also reached first by default order',
    ],
    [
      "with returns without code",
      { ...one({}), returns: {} },
      "returns.use: nothing is not a handler's name",
    ],
    [
      "with an unknown field in returns",
      { ...one({}), returns: { use: "r", priority: 1 } },
      'returns: has the unknown field "priority"',
    ],
  ];

  test.each(cases)("%s", (_what, data, refusal) => expectRefusal(data, refusal));

  test("or taken, but nothing makes the parser throw", () => {
    const fields = ["name", "phases", "handlers", "use", "next", "among", "retry", "tasks", "sleep", "a"];
    const json = fc.letrec<{ value: unknown }>((tie) => ({
      value: fc.oneof(
        { depthSize: "small" },
        fc.constantFrom("a", "", "1s", 0, 1, -1, 1.5, null, true, false),
        fc.array(tie("value"), { maxLength: 3 }),
        fc.dictionary(fc.constantFrom(...fields), tie("value"), { maxKeys: 5 }),
      ),
    })).value;
    fc.assert(
      fc.property(json, (data) => {
        const around = [
          data,
          { name: "w", phases: [data] },
          { name: "w", phases: [{ name: "a", handlers: { h: data }, next: data }] },
        ];
        for (const one of around) expect(typeof parseDefinition(one)).toBe("object");
      }),
      { numRuns: 500 },
    );
  });
});
