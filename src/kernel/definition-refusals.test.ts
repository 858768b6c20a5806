// What is no definition is refused, with the place and the reason.
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { isRejection } from "../std/rejection.ts";
import { parseDefinition } from "./parse-definition.ts";

// The same run every time; change the seed to look elsewhere.
fc.configureGlobal({ seed: 1 });
const one = (phase: object, ...more: object[]) => ({ name: "w", phases: [{ name: "a", ...phase }, ...more] });

const handler = (options: object) => one({ handlers: { h: { use: "u", ...options } } });
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
      "with a task that its pointer does not name",
      handler({ tasks: [{ c: "x" }, { d: "x" }], key: "/c" }),
      `${at}.tasks[1]: the key of a task must be a text or a number, but "/c" gives nothing`,
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
