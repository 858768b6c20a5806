// What the builder refuses at once, and what waits for the complete workflow.
import { describe, expect, test } from "vitest";
import { parseDefinition } from "../../src/kernel/definition/parse-definition.ts";
import { handler } from "../../src/sdk/handler.ts";
import { workflow } from "../../src/sdk/workflow.ts";
import { isRejection, RondoError, unwrap } from "../../src/std/rejection.ts";

const nothing = () => null;
const spec = { process: nothing };
const base = workflow({ name: "w" }).phase("a", spec);
/** Mistakes that the types refuse too, as plain JavaScript would make them. */
const untyped = base as unknown as Record<string, (...given: unknown[]) => unknown>;

function refusal(build: () => unknown): RondoError {
  try {
    build();
  } catch (thrown) {
    if (thrown instanceof RondoError) return thrown;
    throw thrown;
  }
  throw new Error("nothing was refused");
}

describe("refused at once:", () => {
  const cases: [what: string, build: () => unknown, text: string][] = [
    ["a bad workflow name", () => workflow({ name: "my flow" }), 'name: "my flow" is not a name'],
    ["a bad phase name", () => base.phase("1st", spec), 'phase name: "1st" is not a name'],
    ["a bad name of a sleep", () => base.sleep("", "1s"), 'phase name: "" is not a name'],
    [
      "a bad handler name",
      () => base.phase("b", { "x.y": handler(spec) }),
      'phase "b" handler name: "x.y" is not a name',
    ],
    ["a phase twice", () => base.phase("a", spec), 'phase "a": is defined twice (phase names must be unique'],
    ["the reserved phase", () => base.phase("returns", spec), 'the phase name "returns" is reserved'],
    [
      "the reserved handler",
      () => base.phase("b", { next: handler(spec) }),
      'the handler name "next" is reserved',
    ],
    [
      "two handlers of one name",
      () => base.phase("b", { name: "w.a", process: () => 1 }),
      'handler "w.a": is the name of two handlers',
    ],
    [
      "an unknown option of returns",
      () => base.returns(nothing, { attempts: 5 } as never),
      'returns: has the unknown field "attempts"',
    ],
    [
      "a wrong option of returns",
      () => base.returns(nothing, { timeout: "soon" as never }),
      "returns.timeout",
    ],
    [
      "a decision without its code",
      () => base.phase("b", {}, { next: { among: ["a"] } as never }),
      'phase "b".next: must be a function',
    ],
    [
      "a wrong default",
      () => workflow({ name: "w", defaults: { retry: { attempts: 0 } } }),
      "defaults.retry.attempts",
    ],
    ["returns twice", () => base.returns(nothing).returns(nothing), "returns: is given twice"],
    [
      "a handler without process",
      () => base.phase("b", { enumerate: () => [1] }),
      "has no process (give process, or batch",
    ],
    [
      "batch without processBatch",
      () => base.phase("b", { process: nothing, batch: 2 }),
      "has only one of batch and processBatch",
    ],
    [
      "tasks and enumerate",
      () => base.phase("b", { process: nothing, tasks: [1], enumerate: () => [1] }),
      "has both tasks and enumerate",
    ],
    [
      "a task that cannot be stored",
      () => base.phase("b", { tasks: [{ m: new Map() }], process: nothing }),
      'phase "b" handler "b".tasks[0].m is a Map',
    ],
    [
      "a misspelt option",
      () => untyped["phase"]?.("b", { process: nothing, retries: 3 }),
      'has the unknown field "retries" (known are: name',
    ],
    [
      "a misspelt phase option",
      () => untyped["phase"]?.("b", spec, { onFailure: "a" }),
      'phase "b": has the unknown field "onFailure"',
    ],
    [
      "specs in a map",
      () => untyped["phase"]?.("b", { x: spec, y: spec }),
      '"x" is not a handler (in a map of handlers, wrap each',
    ],
    [
      "a mixed map",
      () => untyped["phase"]?.("b", { x: handler(spec), y: spec }),
      'has the handler "x" beside "y", which is not a handler',
    ],
    ["a function for a handler", () => untyped["phase"]?.("b", nothing), "give { process: ... }"],
    [
      "a decision without among",
      () => base.phase("b", {}, { next: () => "a" }),
      "a decision must name the phases that it can choose",
    ],
    [
      "among without a decision",
      () => base.phase("b", {}, { among: ["a"] }),
      "has no effect without a function in next",
    ],
    ["final with a next", () => base.phase("b", {}, { next: "a", final: true }), "is final and has a next"],
    [
      "an input that is no schema",
      () => workflow({ name: "w", input: {} as never }),
      "input: is not a Standard Schema",
    ],
    ["a bad sleep", () => base.sleep("b", "soon"), '"soon" is not a duration (write it as'],
    ["a wait with a bad timeout", () => base.waitFor("b", { timeout: "2 d" }), '"2 d" is not a duration'],
    ["a wait for a bad signal", () => base.waitFor("b", { signal: "a b" }), '"a b" is not a name'],
    [
      "a command without type",
      () => untyped["command"]?.("b", { topic: "T", cmd: {} }),
      "command.cmd_type: nothing is not a text",
    ],
    [
      "a command that is none",
      () => untyped["command"]?.("b", { topic: "T" }),
      ".command: null is not an object",
    ],
    [
      "a command without a topic",
      () => untyped["command"]?.("b", { cmd: { cmd_type: "A" } }),
      ".topic: a command needs a topic",
    ],
    [
      "a command with a field that is not known",
      () => untyped["command"]?.("b", { topic: "T", cmd: { cmd_type: "A", data: 1 } }),
      '.command: has the unknown field "data"',
    ],
    [
      "a command that cannot be stored",
      () => untyped["command"]?.("b", { topic: "T", cmd: { cmd_type: "A", cmd_data: { f: nothing } } }),
      ".cmd.cmd_data.f is a function",
    ],
    [
      "a command with a post-operation that is not known",
      () =>
        untyped["command"]?.("b", {
          topic: "T",
          cmd: { cmd_type: "A", cmd_metadata: { cmd_post_op: { cmd_result_broadcast: [] } } },
        }),
      'cmd_post_op: has the unknown field "cmd_result_broadcast"',
    ],
    [
      "a command with something like a reference",
      () => base.command("b", { topic: "T", cmd: { cmd_type: "A", cmd_data: "${step[0].cmd_result}" } }),
      '"${step[0].cmd_result}" is not a reference',
    ],
    ["a script without runs", () => base.script("b", { runs: [] }), "must be a list of at least one run"],
    [
      "a child with a priority",
      () => base.child("b", "kid", { priority: 2 }),
      "priority: cannot be used where each task is an execution of a child workflow",
    ],
    ["a child that is nothing", () => untyped["child"]?.("b"), ".workflow: nothing is not a name"],
    [
      "a handler of a function",
      () => handler(nothing as never),
      "handler: must be an object (give { process",
    ],
    ["a handler of nothing", () => handler(undefined as never), "handler: must be an object (give { process"],
    ["a child with a bad name", () => base.child("b", "my child"), '"my child" is not a name'],
  ];
  test.each(cases)("%s", (_what, build, text) => {
    const error = refusal(build);
    expect(error.message).toContain(text);
    expect(["invalid_definition", "not_storable"]).toContain(error.code);
  });
});

/** Every option reaches the kernel's parser; what else that refuses is proven beside it. */
describe("an absurd option is refused at once, in the kernel's words:", () => {
  const options: [option: string, value: unknown, text: string][] = [
    ["timeout", 0, ".timeout: 0 is not a duration of at least 1 ms"],
    ["heartbeat", "2d", '.heartbeat: "2d" is not a duration of at most 1 d'],
    ["concurrency", 1.5, ".concurrency: 1.5 is not a whole number from 1 to 1000000"],
    ["concurrency", Number.NaN, ".concurrency: NaN is not a whole number from 1 to 1000000"],
    [
      "concurrencyPerKey",
      3,
      ": has concurrencyPerKey but no key (give key, which says how to find the key of a task)",
    ],
    [
      "ratePerKey",
      { limit: 3, per: "1s" },
      ": has ratePerKey but no key (give key, which says how to find the key of a task)",
    ],
    ["rate", { limit: 3, per: "1s", spread: 2 }, ".rate.spread: 2 is not true or false"],
    ["priority", 5_000, ".priority: 5000 is not a whole number from -1000 to 1000"],
    ["tolerate", "few", '.tolerate: "few" is not a percentage (write it as "1%")'],
    [
      "rate",
      { limit: 1, per: "1s", burst: 1 },
      '.rate: has the unknown field "burst" (known are: limit, per, spread)',
    ],
    ["retry", { crashes: 251 }, ".retry.crashes: 251 is not a whole number from 1 to 250"],
    ["retry", { backoff: "linear" }, '.retry.backoff: "linear" is not one of "exponential", "constant"'],
    [
      "retry",
      { max: 10 },
      ".retry: max (10 ms) is less than min (1000 ms) (give min too, which is 1s by default)",
    ],
    [
      "retry",
      3,
      '.retry: 3 is not an object (write it as { "attempts": 5, "backoff": "exponential", "min": "1s", "max": "5m" })',
    ],
    ["rate", "5/s", '.rate: "5/s" is not an object (write it as { "limit": 5, "per": "1s" })'],
    ["key", "customer", '.key: "customer" is not a JSON Pointer (write "/customer")'],
    ["key", true, '.key: true is not a JSON Pointer (write "/customer")'],
    ["identity", 7, '.identity: 7 is not a JSON Pointer (write "/customer")'],
    ["version", "", '.version: is not a version (write it as "1.2.0")'],
    ["version", "1", '.version: is not a version (write it as "1.2.0")'],
    ["version", "~1.2.0", '.version: is not a version (write it as "1.2.0")'],
    ["version", "01.2.0", '.version: is not a version (write it as "1.2.0")'],
    ["version", "1.2.0-01", '.version: is not a version (write it as "1.2.0")'],
    ["version", 1.2, '.version: is not a version (write it as "1.2.0")'],
    ["tasks", {}, ".tasks: must be a list of tasks"],
  ];
  test.each(options)("%s: %j", (option, value, text) => {
    const error = refusal(() => untyped["phase"]?.("b", { process: nothing, [option]: value }));
    expect(error).toMatchObject({ message: `phase "b" handler "b"${text}`, code: "invalid_definition" });
  });

  test("a batch, which needs its function", () => {
    const error = refusal(() => base.phase("b", { processBatch: () => [], batch: 1_001 }));
    expect(error.message).toBe('phase "b" handler "b".batch: 1001 is not a whole number from 1 to 1000');
  });

  test("topics of a command, and whether a wait is optional or a script goes on", () => {
    const cmd = { cmd_type: "T" };
    const at = 'phase "b" handler "b"';
    const refused = [
      () => base.command("b", { topic: "T", receiptTopic: "", cmd }),
      () => untyped["waitFor"]?.("b", { optional: "yes" }),
      () => untyped["script"]?.("b", { runs: [{ name: "one", expression: "s => s" }], resume: 1 }),
    ];
    expect(refused.map((build) => refusal(build).message)).toEqual([
      `${at}.receiptTopic: "" is not a topic (letters, digits, _, . and -, at most 200, and not beginning with "amq.")`,
      `${at}.optional: "yes" is not true or false`,
      `${at}.resume: 1 is not true or false`,
    ]);
  });
});

describe("names", () => {
  test.each(["a", "a-b_1", "a".repeat(40)])("%j is one", (name) => {
    expect(workflow({ name }).name).toBe(name);
  });

  test.each(["", "1a", "a b", "a.b", "é", "a".repeat(41)])("%j is none", (name) => {
    expect(refusal(() => workflow({ name })).message).toContain("is not a name (a letter, then up to 39");
  });

  test.each(["a", "a.b-c_1", "a".repeat(150)])("%j is a handler's own one", (name) => {
    expect(base.phase("b", { ...spec, name }).handlers.at(-1)?.use).toBe(name);
  });

  test.each(["", "1a", "a b", "é", "a".repeat(151)])("%j is no handler's own one", (name) => {
    expect(refusal(() => base.phase("b", { ...spec, name })).message).toContain(
      "is not a handler's name (a letter, then up to 149 letters, digits, dots, _ or -)",
    );
  });
});

describe("refused by the kernel when the workflow is complete:", () => {
  const cases: [what: string, built: { definition: typeof base.definition }, text: string][] = [
    ["no phase", workflow({ name: "w" }), "a workflow needs at least one phase"],
    [
      "an unknown next",
      base.phase("b", {}, { next: "c" }),
      'phase "b".next: names the phase "c", which does not exist (the phases are: a, b)',
    ],
    [
      "an unknown choice",
      base.phase("b", {}, { next: () => "c", among: ["a", "c"] }),
      'phase "b".next.among: names the phase "c"',
    ],
    ["an unknown onError", base.phase("b", {}, { onError: "c" }), 'phase "b".onError: names the phase "c"'],
    ["an onError to itself", base.phase("b", {}, { onError: "b" }), "names the phase itself"],
    [
      "a repair reached by order",
      base.phase("b", {}, { onError: "c" }).phase("c", spec),
      'repairs "b" by onError, but is also reached after "b"',
    ],
    [
      "a repair that comes first",
      base.phase("b", {}, { onError: "a" }),
      'repairs "b" by onError, but is also reached first',
    ],
  ];
  test.each(cases)("%s", (_what, built, text) => {
    expect(refusal(() => unwrap(parseDefinition(built.definition))).message).toContain(text);
  });

  test("forward references are fine", () => {
    const looped = base
      .phase("b", {}, { onError: "repair", next: () => "end", among: ["a", "end"] })
      .phase("end", {}, { final: true })
      .phase("repair", spec, { next: "a" });
    expect(isRejection(parseDefinition(looped.definition))).toBe(false);
  });
});
