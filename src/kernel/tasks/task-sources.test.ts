// Where the tasks of a handler come from is written in the definition: version 1, version 2, `single`, and what is stored.
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { expectRefusal } from "../../../test/fixtures/kernel/refused-definitions.ts";
import { isRejection } from "../../std/rejection.ts";
import type { Definition } from "../definition/definition.ts";
import { parseDefinition, parseStored } from "../definition/parse-definition.ts";
import { compilePlan, definitionHash } from "../definition/plan.ts";

// The same run every time; change the seed to look elsewhere.
fc.configureGlobal({ seed: 1 });

const COMMAND = { cmd_type: "EMBED", cmd_data: { n: 1 } };
const SCRIPT = [{ name: "one", expression: "s => s" }];

function parsed(data: unknown): Definition {
  const definition = parseDefinition(data);
  if (isRejection(definition)) throw new Error(definition.message);
  return definition;
}

const given = (rondo: unknown, handler: object) => ({
  ...(rondo === undefined ? {} : { rondo }),
  name: "w",
  phases: [{ name: "a", handlers: { h: handler } }],
});
const stored = (rondo: unknown, handler: object) => parsed(given(rondo, handler)).phases[0]?.handlers["h"];

describe("what is stored of a handler", () => {
  const listed = { tasks: [1, 2] };
  const enumerated = { enumerate: { use: "list" } };
  const cases: [what: string, handler: object, inVersion1: object, inVersion2: object][] = [
    ["use alone", { use: "u" }, { use: "u" }, { use: "u", enumerate: { use: "u" } }],
    ["use and single", { use: "u", single: true }, { use: "u" }, { use: "u" }],
    ["use and tasks", { use: "u", ...listed }, { use: "u", ...listed }, { use: "u", ...listed }],
    ["use and no tasks", { use: "u", tasks: [] }, { use: "u", tasks: [] }, { use: "u", tasks: [] }],
    [
      "use and enumerate",
      { use: "u", ...enumerated },
      { use: "u", ...enumerated },
      { use: "u", ...enumerated },
    ],
    [
      "use and every option",
      { use: "u", version: "~1", batch: 5, key: "/k", identity: "/i", tolerate: 1 },
      { use: "u", version: "~1", batch: 5, key: "/k", identity: "/i", tolerate: 1 },
      { use: "u", version: "~1", batch: 5, key: "/k", identity: "/i", tolerate: 1, enumerate: { use: "u" } },
    ],
    [
      "use, single and a batch",
      { use: "u", single: true, batch: 5 },
      { use: "u", batch: 5 },
      { use: "u", batch: 5 },
    ],
    ["sleep", { sleep: "1s" }, { sleep: 1_000 }, { sleep: 1_000 }],
    ["sleep and single", { sleep: "1s", single: true }, { sleep: 1_000 }, { sleep: 1_000 }],
    ["waitFor", { waitFor: "go" }, { waitFor: "go" }, { waitFor: "go" }],
    ["waitFor and single", { waitFor: "go", single: true }, { waitFor: "go" }, { waitFor: "go" }],
    [
      "command",
      { command: COMMAND, topic: "T" },
      { command: COMMAND, topic: "T" },
      { command: COMMAND, topic: "T" },
    ],
    [
      "command and single",
      { command: COMMAND, topic: "T", single: true },
      { command: COMMAND, topic: "T" },
      { command: COMMAND, topic: "T" },
    ],
    ["script", { script: SCRIPT }, { script: SCRIPT }, { script: SCRIPT }],
    ["script and single", { script: SCRIPT, single: true }, { script: SCRIPT }, { script: SCRIPT }],
    [
      "script and tasks",
      { script: SCRIPT, ...listed },
      { script: SCRIPT, ...listed },
      { script: SCRIPT, ...listed },
    ],
    ["workflow", { workflow: "kid" }, { workflow: "kid" }, { workflow: "kid" }],
    ["workflow and single", { workflow: "kid", single: true }, { workflow: "kid" }, { workflow: "kid" }],
    [
      "workflow and enumerate",
      { workflow: "kid", ...enumerated },
      { workflow: "kid", ...enumerated },
      { workflow: "kid", ...enumerated },
    ],
  ];

  test.each(cases)("%s", (_what, handler, inVersion1, inVersion2) => {
    expect(stored(undefined, handler)).toEqual(inVersion1);
    expect(stored(1, handler)).toEqual(inVersion1);
    expect(stored(2, handler)).toEqual(inVersion2);
  });

  test.each(cases)("%s: is of version 1, and is read again as it is", (_what, handler) => {
    for (const version of [1, 2]) {
      const definition = parsed(given(version, handler));
      expect(definition.rondo).toBe(1);
      expect(parseDefinition(structuredClone(definition))).toEqual(definition);
      expect(parseStored(structuredClone(definition))).toEqual(definition);
    }
  });

  test("a decision and the output have one task in both versions", () => {
    const data = {
      name: "w",
      phases: [{ name: "a", handlers: {}, next: { use: "n", among: ["b"] } }, { name: "b" }],
      returns: { use: "r" },
    };
    const definition = parsed({ ...data, rondo: 2 });
    expect(definition).toEqual(parsed(data));
    const plan = compilePlan(definition);
    expect(plan.phases[0]?.decision?.enumerateUse).toBeNull();
    expect(plan.phases.at(-1)?.handlers[0]?.enumerateUse).toBeNull();
  });

  test("in version 2 code enumerates in the versions in which it processes", () => {
    const plan = compilePlan(parsed(given(2, { use: "u", version: "~1.2" })));
    const handler = plan.phases[0]?.handlers[0];
    const { use, range } = handler?.wanted ?? {};
    expect(handler?.enumerator).toMatchObject({ use, range, enumerates: true });
  });

  test("a stored definition is never of version 2", () => {
    expect(parseStored(given(2, { use: "u" }))).toMatchObject({ code: "invalid_definition", path: "rondo" });
  });
});

describe("what contradicts itself is refused", () => {
  const at = 'phase "a" handler "h"';
  test.each([
    [
      "single and tasks",
      { use: "u", single: true, tasks: [1] },
      `${at}: has both single and tasks`,
      "single: true",
    ],
    [
      "single and enumerate",
      { use: "u", single: true, enumerate: { use: "u" } },
      `${at}: has both single and enumerate`,
      "only task is the input",
    ],
    ["single: false", { use: "u", single: false }, `${at}.single: false is not true`, "tasks or enumerate"],
    ["single in words", { use: "u", single: "yes" }, `${at}.single: "yes" is not true`, "leave single out"],
    ["single: null", { use: "u", single: null }, `${at}.single: null is not true`, "leave single out"],
    [
      "single with a key that code computes",
      { use: "u", single: true, key: true },
      `${at}.key: is true, which means that the enumerating code computes it`,
      "JSON Pointer",
    ],
    [
      "single with an identity that code computes",
      { use: "u", single: true, identity: true },
      `${at}.identity: is true, which means that the enumerating code`,
      "JSON Pointer",
    ],
    [
      "single and tasks of a script",
      { script: SCRIPT, single: true, tasks: [1] },
      `${at}: has both single and tasks`,
      "",
    ],
    [
      "tasks and enumerate",
      { use: "u", tasks: [], enumerate: { use: "u" } },
      `${at}: has both tasks and enumerate`,
      "",
    ],
    ["a sleep with tasks", { sleep: 1, tasks: [1] }, `${at}: a sleep or a wait has exactly one task`, ""],
    [
      "enumerate: true",
      { use: "u", enumerate: true },
      `${at}.enumerate: true is not an object`,
      '{ "use": "resize" }',
    ],
  ] as const)("%s", (_what, handler, message, hint) => {
    for (const version of [undefined, 1, 2]) expectRefusal(given(version, handler), message, hint);
  });

  test.each([
    [3, "rondo: version 3 is not known", "known versions are: 1, 2"],
    ["2", 'rondo: version "2" is not known', "without quotes"],
    [null, "rondo: version null is not known", "known versions"],
    [1.5, "rondo: version 1.5 is not known", "known versions"],
  ])("version %j", (version, message, hint) => expectRefusal(given(version, { use: "u" }), message, hint));

  test("single at a decision, at the output or at a phase", () => {
    const phases = [
      { name: "a", handlers: {}, next: { use: "n", among: ["b"], single: true } },
      { name: "b" },
    ];
    expectRefusal({ rondo: 2, name: "w", phases }, 'phase "a".next: has the unknown field "single"');
    const returns = { use: "r", single: true };
    expectRefusal(
      { rondo: 2, name: "w", phases: [{ name: "a" }], returns },
      "returns: has the unknown field",
    );
    expectRefusal(
      { rondo: 2, name: "w", phases: [{ name: "a", single: true }] },
      "phases[0]: has the unknown",
    );
  });
});

describe("the hash", () => {
  // As version 0.2.0 computed them.
  test.each([
    [{ use: "u" }, "d76f47052fcde471748bffc0a11a974a351ce6e5cea7761cc7b594a7796acea1"],
    [
      { use: "u", enumerate: { use: "u" } },
      "bf73bc6a114028c1c4cb18433b27bbd4faa9a1768d1cac960f488c54ffa57607",
    ],
    [{ use: "u", tasks: [1, 2] }, "f942806e9cd26013b0843cb1cb45496332eee0c8a8edd8e95bc6e4245dd5107a"],
  ])("of %j is what it was", (handler, hash) => {
    expect(definitionHash(parsed(given(undefined, handler)))).toBe(hash);
    expect(definitionHash(parsed(given(1, handler)))).toBe(hash);
  });

  test("of every kind of handler is what it was, with a decision and an output", () => {
    const kinds = {
      rondo: 1,
      name: "kinds",
      phases: [
        { name: "s", handlers: { s: { sleep: "10m" }, w: { waitFor: "go", timeout: "2d" } } },
        {
          name: "c",
          handlers: {
            c: {
              command: { cmd_type: "EMBED_REPO", cmd_data: {}, cmd_metadata: {} },
              topic: "LEXI_CMD_EMBED",
            },
          },
        },
        { name: "m", handlers: { m: { script: SCRIPT }, k: { workflow: "child" } } },
        {
          name: "n",
          handlers: { b: { use: "b", batch: 50, retry: { attempts: 5 } } },
          next: { use: "kinds.n.next", among: ["s", "e"] },
          maxVisits: 5,
        },
        { name: "e", handlers: {}, final: true },
      ],
      returns: { use: "kinds.returns" },
    };
    expect(definitionHash(parsed(kinds))).toBe(
      "3eb4e38221de264cc0eec847257bf9efd1d5659080481f3fa57b16d3abd11a21",
    );
  });

  test("of version 2 is that of the version 1 that says the same", () => {
    const hash = (version: number, handler: object) => definitionHash(parsed(given(version, handler)));
    expect(hash(2, { use: "u" })).toBe(hash(1, { use: "u", enumerate: { use: "u" } }));
    expect(hash(2, { use: "u", single: true })).toBe(hash(1, { use: "u" }));
    expect(hash(1, { use: "u", single: true })).toBe(hash(1, { use: "u" }));
  });
});

test("whatever combination is given is refused, or its tasks come from exactly one place", () => {
  const options = fc.record(
    {
      use: fc.constantFrom("u", "v"),
      single: fc.constantFrom(true, false, null),
      tasks: fc.constantFrom([], [1]),
      enumerate: fc.constantFrom({ use: "u" }, { use: "list" }, true),
      sleep: fc.constant(5),
      workflow: fc.constant("kid"),
      script: fc.constant(SCRIPT),
      key: fc.constantFrom("/k", true),
    },
    { requiredKeys: [] },
  );
  fc.assert(
    fc.property(fc.constantFrom(1, 2), options, (version, handler) => {
      const definition = parseDefinition(given(version, handler));
      if (isRejection(definition)) return;
      const kept = definition.phases[0]?.handlers["h"];
      const isSingle = kept?.tasks === undefined && kept?.enumerate === undefined;
      expect(Object.keys(kept ?? {})).not.toContain("single");
      expect(kept?.tasks === undefined || kept.enumerate === undefined).toBe(true);
      if (handler.single === true) expect(isSingle).toBe(true);
      if (version === 2 && handler.use !== undefined && handler.single !== true) expect(isSingle).toBe(false);
      expect(parseDefinition(structuredClone(definition))).toEqual(definition);
    }),
    { numRuns: 2_000 },
  );
});
