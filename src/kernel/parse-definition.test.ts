// Definitions from outside: the canonical form, its hash, and every refusal with its message (INTERFACES 2).
import fc from "fast-check";
import { validRange } from "semver";
import { describe, expect, test } from "vitest";
import { isRejection } from "../std/rejection.ts";
import type { Definition } from "./definition.ts";
import { definitionHash } from "./definition-hash.ts";
import { parseDefinition, parseStored } from "./parse-definition.ts";
import { compilePlan } from "./plan.ts";

// The same run every time; change the seed to look elsewhere.
fc.configureGlobal({ seed: 1 });

function parsed(data: unknown): Definition {
  const definition = parseDefinition(data);
  if (isRejection(definition)) throw new Error(definition.message);
  return definition;
}

const one = (phase: object, ...more: object[]) => ({ name: "w", phases: [{ name: "a", ...phase }, ...more] });
const handler = (options: object) => one({ handlers: { h: { use: "u", ...options } } });
const canonical = (options: object) => parsed(handler(options)).phases[0]?.handlers["h"];

const run = (name: string) => ({ name, expression: "s => s" });

describe("a definition is refused", () => {
  const at = 'phase "a" handler "h"';
  const cases: [what: string, data: unknown, message: string][] = [
    ["that is no object", 7, "definition: must be an object"],
    ["that is a list", [], "definition: must be an object"],
    ["that is null", null, "definition: must be an object"],
    ["of another version", { ...one({}), rondo: 2 }, "rondo: version 2 is not known"],
    ["with an unknown field", { ...one({}), nmae: "x" }, 'definition: has the unknown field "nmae"'],
    ["without a name", { phases: [{ name: "a" }] }, "name: undefined is not a name"],
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
    ["with a phase that is no object", { name: "w", phases: ["a"] }, "phases[0]: must be an object"],
    ["with an unknown field in a phase", one({ nxt: "b" }), 'phases[0]: has the unknown field "nxt"'],
    ["with a nameless phase", { name: "w", phases: [{}] }, "phases[0].name: undefined is not a name"],
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
    ["with handlers as a list", one({ handlers: [] }), 'phase "a".handlers: must be an object of handlers'],
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
    ["with another final", one({ final: "done" }), 'phase "a".final: must be true or "failed"'],
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
    ["with a next that is a number", one({ next: 5 }), 'phase "a".next: must be an object'],
    [
      "with a decision without among",
      one({ next: { use: "n" } }),
      'phase "a".next.among: a decision names the phases it can choose',
    ],
    [
      "with an empty among",
      one({ next: { use: "n", among: [] } }),
      'phase "a".next.among: a decision names the phases it can choose',
    ],
    [
      "with an unknown phase in among",
      one({ next: { use: "n", among: ["a", "zz"] } }),
      'phase "a".next.among: names the phase "zz", which does not exist',
    ],
    [
      "with a decision without code",
      one({ next: { among: ["a"] } }),
      'phase "a".next.use: undefined is not a handler\'s name',
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
      "returns.use: undefined is not a handler's name",
    ],
    [
      "with an unknown field in returns",
      { ...one({}), returns: { use: "r", version: "1" } },
      'returns: has the unknown field "version"',
    ],

    ["with a handler that does nothing", one({ handlers: { h: {} } }), `${at}: has none of use | sleep`],
    [
      "with a handler that does two things",
      one({ handlers: { h: { use: "u", sleep: 1 } } }),
      `${at}: has use and sleep of use | sleep`,
    ],
    ["with an unknown option", handler({ retries: 3 }), `${at}: has the unknown field "retries"`],
    ["with a bad use", handler({ use: "a b" }), `${at}.use: "a b" is not a handler's name`],
    ["with an endless use", handler({ use: "a".repeat(151) }), `${at}.use: "${"a".repeat(60)}" is not`],
    [
      "with a bad duration",
      handler({ timeout: "5 minutes" }),
      `${at}.timeout: "5 minutes" is not a duration`,
    ],
    ["with no time at all", handler({ timeout: 0 }), `${at}.timeout: 0 is shorter than 1 ms`],
    ["with negative time", handler({ timeout: -5 }), `${at}.timeout: -5 is not a whole, non-negative number`],
    [
      "with a broken number of ms",
      handler({ timeout: 1.5 }),
      `${at}.timeout: 1.5 is not a whole, non-negative number`,
    ],
    ["with a timeout of 101 years", handler({ timeout: "36900d" }), `${at}.timeout: longer than 100 years`],
    [
      "with a heartbeat that is too short",
      handler({ heartbeat: 50 }),
      `${at}.heartbeat: 50 is shorter than 100 ms`,
    ],
    [
      "with a heartbeat that is too long",
      handler({ heartbeat: "2d" }),
      `${at}.heartbeat: 172800000 is not a whole number from 100 to 86400000`,
    ],
    [
      "with no attempts",
      handler({ retry: { attempts: 0 } }),
      `${at}.retry.attempts: 0 is not a whole number from 1 to 250`,
    ],
    [
      "with 251 attempts",
      handler({ retry: { attempts: 251 } }),
      `${at}.retry.attempts: 251 is not a whole number from 1 to 250`,
    ],
    [
      "with no crashes",
      handler({ retry: { crashes: 0 } }),
      `${at}.retry.crashes: 0 is not a whole number from 1 to 250`,
    ],
    [
      "with another backoff",
      handler({ retry: { backoff: "linear" } }),
      `${at}.retry.backoff: "linear" is not known`,
    ],
    [
      "with max under min",
      handler({ retry: { min: "10s", max: "1s" } }),
      `${at}.retry: max (1000 ms) is less than min (10000 ms)`,
    ],
    [
      "with an unknown field in retry",
      handler({ retry: { max_attempts: 2 } }),
      `${at}.retry: has the unknown field`,
    ],
    ["with no concurrency", handler({ concurrency: 0 }), `${at}.concurrency: 0 is not a whole number from 1`],
    [
      "with half a concurrency",
      handler({ concurrency: 0.5 }),
      `${at}.concurrency: 0.5 is not a whole number`,
    ],
    [
      "with concurrency in words",
      handler({ concurrency: "9" }),
      `${at}.concurrency: "9" is not a whole number`,
    ],
    [
      "with concurrencyPerKey and no key",
      handler({ concurrencyPerKey: 1 }),
      `${at}: has concurrencyPerKey but no key`,
    ],
    [
      "with a key that is no pointer",
      handler({ key: "customer" }),
      `${at}.key: "customer" is not a JSON Pointer`,
    ],
    [
      "with an identity that is no pointer",
      handler({ identity: 7 }),
      `${at}.identity: 7 is not a JSON Pointer`,
    ],
    [
      "with a rate of none",
      handler({ rate: { limit: 0, per: "1s" } }),
      `${at}.rate.limit: 0 is not a whole number from 1`,
    ],
    [
      "with a rate per nothing",
      handler({ rate: { limit: 1, per: 0 } }),
      `${at}.rate.per: 0 is shorter than 1 ms`,
    ],
    [
      "with priority beyond 1,000",
      handler({ priority: 1_001 }),
      `${at}.priority: 1001 is not a whole number from -1000`,
    ],
    ["with tolerate over 100 %", handler({ tolerate: "101%" }), `${at}.tolerate: "101%" is not a percentage`],
    ["with tolerate in words", handler({ tolerate: "few" }), `${at}.tolerate: "few" is not a percentage`],
    ["with negative tolerate", handler({ tolerate: -1 }), `${at}.tolerate: -1 is not a whole number from 0`],
    [
      "with a rate of nothing",
      handler({ rate: { limit: 0, per: "1s" } }),
      `${at}.rate.limit: 0 is not a whole`,
    ],
    [
      "with a rate in no time",
      handler({ rate: { limit: 1, per: 0 } }),
      `${at}.rate.per: 0 is shorter than 1 ms`,
    ],
    [
      "with a batch of 1,001",
      handler({ batch: 1_001 }),
      `${at}.batch: 1001 is not a whole number from 1 to 1000`,
    ],
    ["with tasks that are no list", handler({ tasks: {} }), `${at}.tasks: must be a list of tasks`],
    [
      "with 100,001 tasks",
      handler({ tasks: Array.from({ length: 100_001 }, () => 0) }),
      `${at}.tasks: 100001 tasks in a definition; at most 100000 are allowed`,
    ],
    [
      "with a task over 64 KiB",
      handler({ tasks: ["small", "x".repeat(65_536)] }),
      `${at}.tasks[1]: the task is 65538 bytes; at most 65536 are stored`,
    ],
    [
      "with tasks and enumerate",
      handler({ tasks: [], enumerate: { use: "l" } }),
      `${at}: has both tasks and enumerate`,
    ],
    [
      "with a sleep that enumerates",
      one({ handlers: { h: { sleep: 5, tasks: [1] } } }),
      `${at}: a sleep or a wait has exactly one task`,
    ],
    [
      "with a bad signal name",
      one({ handlers: { h: { waitFor: "a b" } } }),
      `${at}.waitFor: "a b" is not a name`,
    ],
    [
      "with optional in words",
      one({ handlers: { h: { waitFor: "s", optional: "yes" } } }),
      `${at}.optional: must be`,
    ],
    ["with an empty version", handler({ version: "" }), `${at}.version: must be a text of 1 to 200`],
    ["with an enumerator without code", handler({ enumerate: {} }), `${at}.enumerate.use: undefined is not`],
    [
      "with a command without a type",
      one({ handlers: { h: { command: {}, topic: "T" } } }),
      `${at}.command.cmd_type: must be a text of 1 to 200`,
    ],
    ["with a version that is no range", handler({ version: "$" }), `${at}.version: "$" is not a range`],
    [
      "with a script of no runs",
      one({ handlers: { h: { script: [] } } }),
      `${at}.script: must be a list of runs`,
    ],
    [
      "with two runs of one name",
      one({ handlers: { h: { script: [run("a"), run("a")] } } }),
      `${at}.script[1].name: "a" is the name of two runs`,
    ],
    [
      "with a run without an expression",
      one({ handlers: { h: { script: [{ name: "a" }] } } }),
      `${at}.script[0].expression: must be JavaScript`,
    ],
    [
      "with a batch of children",
      one({ handlers: { h: { workflow: "child", batch: 2 } } }),
      `${at}.batch: means nothing where tasks are executions`,
    ],
    [
      "with a priority of children",
      one({ handlers: { h: { workflow: "child", priority: 3 } } }),
      `${at}.priority: means nothing where tasks are executions`,
    ],
    [
      "with a heartbeat of children",
      one({ handlers: { h: { workflow: "child", tasks: [1], heartbeat: "5s" } } }),
      `${at}.heartbeat: means nothing where tasks are executions`,
    ],
    [
      "with a state for several scripts",
      one({ handlers: { h: { script: [run("a")], state: {}, tasks: [1] } } }),
      `${at}: has a state and several tasks`,
    ],
    ["with a rate that is a number", handler({ rate: 5 }), `${at}.rate`],
    ["with a rate without a time", handler({ rate: { limit: 5 } }), `${at}.rate.per`],
    ["with a rate of a part", handler({ rate: { limit: 1.5, per: "1s" } }), `${at}.rate.limit: 1.5 is not`],
    ["with more to a rate", handler({ rate: { limit: 1, per: "1s", burst: 2 } }), `${at}.rate`],
    ["with a batch of nothing", handler({ batch: 0 }), `${at}.batch: 0 is not a whole number from 1`],
    ["with a version that is a number", handler({ version: 1 }), `${at}.version`],
    ["with an empty version", handler({ version: "" }), `${at}.version`],
    [
      "with a script that is a text",
      one({ handlers: { h: { script: "s => s" } } }),
      `${at}.script: must be a list of runs`,
    ],
    [
      "with a script of 1,001 runs",
      one({ handlers: { h: { script: Array.from({ length: 1_001 }, (_, i) => run(`r${i}`)) } } }),
      `${at}.script: 1001 runs; at most 1000`,
    ],
    [
      "with a run without a name",
      one({ handlers: { h: { script: [{ expression: "s => s" }] } } }),
      `${at}.script[0].name`,
    ],
    [
      "with a run of half a character",
      one({ handlers: { h: { script: [{ name: "a", expression: "() => '\ud800'" }] } } }),
      `${at}.script[0].expression: holds half`,
    ],
    [
      "with a run of no time",
      one({ handlers: { h: { script: [{ ...run("a"), timeout: 0 }] } } }),
      `${at}.script[0].timeout: 0 is shorter`,
    ],
    [
      "with a run of something else",
      one({ handlers: { h: { script: [{ ...run("a"), memory: 1 }] } } }),
      `${at}.script[0]`,
    ],
    [
      "with resume in words",
      one({ handlers: { h: { script: [run("a")], resume: "no" } } }),
      `${at}.resume: must be true or false`,
    ],
    ["with a child without a name", one({ handlers: { h: { workflow: "" } } }), `${at}.workflow: "" is not`],
    ["with a child that is an object", one({ handlers: { h: { workflow: {} } } }), `${at}.workflow`],
    [
      "with a child that is code as well",
      one({ handlers: { h: { workflow: "kid", use: "u" } } }),
      `${at}: has use and workflow of`,
    ],
  ];

  test.each(cases)("%s", (_what, data, message) => {
    const refused = parseDefinition(data);
    expect(isRejection(refused)).toBe(true);
    if (!isRejection(refused)) return;
    expect(refused.message.slice(0, message.length)).toBe(message);
    expect(["invalid_definition", "too_large", "not_storable", "too_deep"]).toContain(refused.code);
    expect(refused.path).toBeTruthy();
  });

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

describe("the canonical form", () => {
  test("has durations in milliseconds", () => {
    expect(canonical({ timeout: "1.5s", heartbeat: "1m" })).toEqual({
      use: "u",
      timeout: 1_500,
      heartbeat: 60_000,
    });
  });

  test("leaves defaults out", () => {
    const options = {
      retry: { attempts: 3, crashes: 4, backoff: "exponential", min: "1s", max: "1m" },
      heartbeat: "30s",
      priority: 0,
      tolerate: 0,
      batch: 1,
    };
    expect(canonical(options)).toEqual({ use: "u" });
    expect(parsed(one({ handlers: {}, final: false, maxVisits: 1_000 })).phases).toEqual([
      { name: "a", handlers: {} },
    ]);
    expect(parsed(one({ handlers: { h: { waitFor: "s", optional: false } } })).phases[0]?.handlers).toEqual({
      h: { waitFor: "s" },
    });
  });

  test("keeps what is said and is not the default", () => {
    const options = {
      version: "~1.2",
      retry: { attempts: 5 },
      concurrency: 200,
      key: "/customer",
      concurrencyPerKey: 5,
      identity: "/key",
      priority: -3,
      tolerate: "1%",
    };
    expect(canonical(options)).toEqual({ use: "u", ...options });
  });

  test("has rates, batches, runs and children", () => {
    expect(canonical({ rate: { limit: 100, per: "1m" }, batch: 50 })).toEqual({
      use: "u",
      rate: { limit: 100, per: 60_000 },
      batch: 50,
    });
    const script = [{ ...run("one"), timeout: "5s" }, run("two")];
    const handlers = {
      map: { script, state: { n: [1, null] }, resume: true },
      again: { script: [run("one")], tasks: [1, 2], resume: false },
      invoices: { workflow: "invoice", enumerate: { use: "list-invoices" }, concurrency: 20 },
    };
    expect(parsed(one({ handlers })).phases[0]?.handlers).toEqual({
      map: { script: [{ ...run("one"), timeout: 5_000 }, run("two")], state: { n: [1, null] } },
      again: { script: [run("one")], tasks: [1, 2], resume: false },
      invoices: handlers.invoices,
    });
  });

  test("a range that is taken is one that semver knows, and what semver does not know is refused", () => {
    const piece = fc.constantFrom(
      ...["1", "1.2", "1.2.3", "0.0.1", "*", "x", "1.x", "v2", "01", "1.0.0-a.1", "1.0.0-01", "1.0.0+b"],
      ...["~", "^", ">=", "<", "=", "<>", "-", " - ", " ", "||", " || ", "latest", ".", "1.2.3.4", "-1"],
    );
    let taken = 0;
    fc.assert(
      fc.property(fc.array(piece, { minLength: 1, maxLength: 5 }), (pieces) => {
        const version = pieces.join("");
        const isTaken = !isRejection(parseDefinition(handler({ version })));
        if (isTaken) taken++;
        if (isTaken) expect(validRange(version), version).not.toBeNull();
      }),
      { numRuns: 3_000, seed: 7 },
    );
    expect(taken).toBeGreaterThan(200);
    for (const version of ["latest", "1..2", "1.2.3.4", "~", "1 -", "a || b", "1 2 -", " "])
      expect(isRejection(parseDefinition(handler({ version }))), version).toBe(true);
  });

  test.each(["1", "1.2.3", "~1.2", "^1", ">=1 <3", "1 - 2", "1.x || >=2.5.0", "*", "1.0.0-beta.1"])(
    "keeps a range of versions: %s",
    (version) => expect(canonical({ version })).toEqual({ use: "u", version }),
  );

  test("has max at least at min where only min is given", () => {
    expect(canonical({ retry: { min: "5m" } })).toEqual({ use: "u", retry: { min: 300_000, max: 300_000 } });
  });

  test("is what parsing it again gives", () => {
    const first = parsed({
      name: "w",
      input: { type: "object" },
      phases: [
        { name: "a", handlers: { h: { use: "u", timeout: "1h", tolerate: "01%" } }, onError: "fix" },
        { name: "b", handlers: { s: { sleep: "1d" }, t: { waitFor: "go", timeout: 5, optional: true } } },
        { name: "c", handlers: {}, next: { use: "n", among: ["a", "d"] }, maxVisits: 7 },
        { name: "d", handlers: {}, final: true },
        { name: "fix", handlers: {}, final: "failed" },
      ],
      returns: { use: "w.returns" },
    });
    expect(parsed(structuredClone(first))).toEqual(first);
    expect(definitionHash(parsed(first))).toBe(definitionHash(first));
  });
});

describe("the hash", () => {
  const base = () => parsed(handler({ timeout: "30s", retry: { attempts: 5, min: "2s" } }));

  test("does not depend on the order of keys", () => {
    const turned = parsed({
      phases: [
        {
          handlers: { h: { retry: { min: 2_000, attempts: 5 }, timeout: 30_000, use: "u" } },
          name: "a",
        },
      ],
      name: "w",
      rondo: 1,
    });
    expect(definitionHash(turned)).toBe(definitionHash(base()));
  });

  test("does not depend on defaults being written down", () => {
    const said = parsed(
      one({
        handlers: {
          h: {
            use: "u",
            timeout: "30s",
            heartbeat: "30s",
            priority: 0,
            tolerate: 0,
            retry: { attempts: 5, crashes: 4, backoff: "exponential", min: "2s", max: "1m" },
          },
        },
        maxVisits: 1_000,
      }),
    );
    expect(definitionHash(said)).toBe(definitionHash(base()));
  });

  test("depends on the order of phases, and on every option", () => {
    const hashes = [
      { name: "w", phases: [{ name: "a" }, { name: "b" }] },
      { name: "w", phases: [{ name: "b" }, { name: "a" }] },
      { name: "v", phases: [{ name: "a" }, { name: "b" }] },
      { name: "w", phases: [{ name: "a" }, { name: "b", final: true }] },
      { name: "w", phases: [{ name: "a" }, { name: "b" }], returns: { use: "r" } },
      handler({}),
      handler({ timeout: 1 }),
      handler({ tolerate: 1 }),
    ].map((data) => definitionHash(parsed(data)));
    expect(new Set(hashes).size).toBe(hashes.length);
    for (const hash of hashes) expect(hash).toMatch(/^[0-9a-f]{64}$/);
  });
});

describe("an onError target", () => {
  test.each([
    ["behind a final phase", [{ name: "end", final: true }]],
    ["behind a phase with a next", [{ name: "b", next: "a" }]],
    ["that is named as a next too", [{ name: "b", next: "fix" }]],
  ])("%s is fine", (_name, between) => {
    const data = { name: "w", phases: [{ name: "a", onError: "fix" }, ...between, { name: "fix" }] };
    expect(isRejection(parseDefinition(data))).toBe(false);
  });
});

test("the example of the interface is a definition", () => {
  const use = (name: string) => ({ use: `thumbnails.${name}` });
  const definition = parsed({
    rondo: 1,
    name: "thumbnails",
    input: { type: "object", required: ["bucket"] },
    phases: [
      {
        name: "resize",
        onError: "cleanup",
        handlers: {
          resize: {
            ...use("resize"),
            version: "~1.2",
            timeout: "30s",
            heartbeat: "30s",
            retry: { attempts: 5, crashes: 4, backoff: "exponential", min: "1s", max: "5m" },
            concurrency: 200,
            key: "/customer",
            concurrencyPerKey: 5,
            identity: "/key",
            rate: { limit: 100, per: "1s" },
            priority: 0,
            tolerate: "1%",
          },
        },
      },
      { name: "publish", handlers: { notify: { use: "notifier", tasks: [{ to: "ops" }], batch: 50 } } },
      { name: "cool-off", handlers: { "cool-off": { sleep: "10m" } } },
      { name: "approved", handlers: { approved: { waitFor: "approved", timeout: "2d" } } },
      {
        name: "embed",
        handlers: {
          embed: {
            command: { cmd_type: "EMBED_REPO", cmd_data: {}, cmd_metadata: {} },
            topic: "LEXI_CMD_EMBED",
          },
        },
      },
      {
        name: "map",
        handlers: { map: { script: [{ ...run("one"), timeout: "5s" }], state: {}, resume: true } },
      },
      {
        name: "invoices",
        handlers: {
          invoices: { workflow: "invoice", enumerate: { use: "list-invoices" }, concurrency: 20 },
        },
      },
      {
        name: "again",
        handlers: {},
        next: { ...use("again.next"), among: ["resize", "end"] },
        maxVisits: 50,
      },
      { name: "end", handlers: {}, final: true },
      { name: "cleanup", final: "failed", handlers: { cleanup: use("cleanup") } },
    ],
    returns: use("returns"),
  });
  expect(parsed(structuredClone(definition))).toEqual(definition);
  const plan = compilePlan(definition);
  expect(plan.phases.flatMap(({ handlers }) => handlers.map(({ name, mode }) => `${name}: ${mode}`))).toEqual(
    [
      "resize: use",
      "notify: use",
      "cool-off: sleep",
      "approved: waitFor",
      "embed: command",
      "map: script",
      "invoices: workflow",
      "cleanup: use",
      "returns: use",
    ],
  );
  const wanted = plan.byName.get("resize")?.handlers[0]?.wanted;
  expect(wanted).toEqual({ use: "thumbnails.resize", range: "~1.2", key: "thumbnails.resize ~1.2" });
});

test("options of children that an earlier version took do not keep what is stored from being read", () => {
  const data = one({ handlers: { h: { workflow: "child", priority: 3 } } });
  expect(isRejection(parseDefinition(data))).toBe(true);
  expect(parseStored(data)).toMatchObject({ phases: [{ handlers: { h: { priority: 3 } } }] });
});

test("where children are enumerated by code, a worker does that, with its priority and its heartbeat", () => {
  const listed = {
    workflow: "child",
    enumerate: { use: "list" },
    priority: 3,
    heartbeat: "5s",
    timeout: "1h",
  };
  expect(isRejection(parseDefinition(one({ handlers: { h: listed } })))).toBe(false);
});
