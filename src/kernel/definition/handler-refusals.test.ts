// What cannot be a handler of a definition is refused, with the place, the reason, and how it is written.
import { describe, test } from "vitest";
import { expectRefusal, one, type RefusedCase } from "../../../test/fixtures/kernel/refused-definitions.ts";

const handler = (options: object) => one({ handlers: { h: { use: "u", ...options } } });
const run = (name: string) => ({ name, expression: "s => s" });
const at = 'phase "a" handler "h"';

describe("a definition is refused", () => {
  const cases: RefusedCase[] = [
    ["with a handler that does nothing", one({ handlers: { h: {} } }), `${at}: has none of use | sleep`],
    [
      "with a handler that does two things",
      one({ handlers: { h: { use: "u", sleep: 1 } } }),
      `${at}: has use and sleep of use | sleep`,
    ],
    ["with an unknown option", handler({ retries: 3 }), `${at}: has the unknown field "retries"`],
    ["with a bad use", handler({ use: "a b" }), `${at}.use: "a b" is not a handler's name`],
    ["with an endless use", handler({ use: "a".repeat(151) }), `${at}.use: "${"a".repeat(58)}… is not`],
    [
      "with a bad duration",
      handler({ timeout: "5 minutes" }),
      `${at}.timeout: "5 minutes" is not a duration`,
    ],
    ["with no time at all", handler({ timeout: 0 }), `${at}.timeout: 0 is not a duration of at least 1 ms`],
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
      `${at}.heartbeat: 50 is not a duration of at least 100 ms`,
    ],
    [
      "with a heartbeat that is too long",
      handler({ heartbeat: "2d" }),
      `${at}.heartbeat: "2d" is not a duration of at most 1 d`,
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
      `${at}.retry.backoff: "linear" is not one of "exponential", "constant"`,
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
      `${at}.rate.per: 0 is not a duration of at least 1 ms`,
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
      "with a batch of 1,001",
      handler({ batch: 1_001 }),
      `${at}.batch: 1001 is not a whole number from 1 to 1000`,
    ],
    ["with tasks that are no list", handler({ tasks: {} }), `${at}.tasks: {} is not a list`],
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
      `${at}.optional: "yes" is not true or false`,
    ],
    ["with an empty version", handler({ version: "" }), `${at}.version: "" is not a text of 1 to 200`],
    ["with an enumerator without code", handler({ enumerate: {} }), `${at}.enumerate.use: nothing is not`],
    [
      "with a command without a type",
      one({ handlers: { h: { command: {}, topic: "T" } } }),
      `${at}.command.cmd_type: nothing is not a text of 1 to 200`,
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
      `${at}.script[0].expression: nothing is not JavaScript`,
    ],
    [
      "with a batch of children",
      one({ handlers: { h: { workflow: "child", batch: 2 } } }),
      `${at}.batch: cannot be used where each task is an execution`,
    ],
    [
      "with a priority of children",
      one({ handlers: { h: { workflow: "child", priority: 3 } } }),
      `${at}.priority: cannot be used where each task is an execution`,
    ],
    [
      "with a heartbeat of children",
      one({ handlers: { h: { workflow: "child", tasks: [1], heartbeat: "5s" } } }),
      `${at}.heartbeat: cannot be used where each task is an execution`,
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
    [
      "with a script that is a text",
      one({ handlers: { h: { script: "s => s" } } }),
      `${at}.script: must be a list of runs`,
    ],
    [
      "with a script of 1,001 runs",
      one({ handlers: { h: { script: Array.from({ length: 1_001 }, (_, i) => run(`r${i}`)) } } }),
      `${at}.script: it has 1001 entries; at most 1000`,
    ],
    [
      "with a run without a name",
      one({ handlers: { h: { script: [{ expression: "s => s" }] } } }),
      `${at}.script[0].name`,
    ],
    [
      "with a run of half a character",
      one({ handlers: { h: { script: [{ name: "a", expression: "() => '\ud800'" }] } } }),
      `${at}.script[0].expression: contains half`,
    ],
    [
      "with a run of no time",
      one({ handlers: { h: { script: [{ ...run("a"), timeout: 0 }] } } }),
      `${at}.script[0].timeout: 0 is not a duration of at least`,
    ],
    [
      "with a run of something else",
      one({ handlers: { h: { script: [{ ...run("a"), memory: 1 }] } } }),
      `${at}.script[0]`,
    ],
    [
      "with resume in words",
      one({ handlers: { h: { script: [run("a")], resume: "no" } } }),
      `${at}.resume: "no" is not true or false`,
    ],
    ["with a child without a name", one({ handlers: { h: { workflow: "" } } }), `${at}.workflow: "" is not`],
    ["with a child that is an object", one({ handlers: { h: { workflow: {} } } }), `${at}.workflow`],
    [
      "with a child that is code as well",
      one({ handlers: { h: { workflow: "kid", use: "u" } } }),
      `${at}: has use and workflow of`,
    ],
  ];

  test.each(cases)("%s", (_what, data, refusal) => expectRefusal(data, refusal));

  const RATE = 'write it as { "limit": 5, "per": "1s" }';
  const spelt: [options: object, message: string, hint: string][] = [
    [{ rate: "5/s" }, 'rate: "5/s" is not an object', RATE],
    [{ rate: 5 }, "rate: 5 is not an object", RATE],
    [{ rate: { limit: 5, per: "second" } }, 'rate.per: "second" is not a duration', '"30s"'],
    [{ rate: { limit: "5", per: "1s" } }, 'rate.limit: "5" is not a whole number', "without quotes"],
    [{ retry: 5 }, "retry: 5 is not an object", 'write it as { "attempts": 5,'],
    [{ timeout: "5 seconds" }, 'timeout: "5 seconds" is not a duration', '"500ms", "30s", "5m"'],
    [{ timeout: { seconds: 5 } }, "timeout: a value of type object is not a duration", '"500ms", "30s"'],
    [{ tolerate: 0.05 }, "tolerate: 0.05 is not a number of tasks", 'is written as "1%"'],
    [{ tolerate: "5" }, 'tolerate: "5" is not a percentage', 'write it as "1%"'],
    [{ concurrency: "9" }, 'concurrency: "9" is not a whole number', "without quotes"],
  ];

  test.each(spelt)("with %j, with how it is written", (options, message, hint) =>
    expectRefusal(handler(options), `${at}.${message}`, hint),
  );
});
