// What the builder refuses at once, what waits for the complete workflow, and that the kernel agrees.
import { describe, expect, test } from "vitest";
import { NAME_PATTERN, USE_PATTERN } from "../../src/kernel/definition.ts";
import { parseDefinition } from "../../src/kernel/parse-definition.ts";
import { checkName, checkWireName } from "../../src/sdk/check.ts";
import { checkWorkflow } from "../../src/sdk/check-workflow.ts";
import { handler } from "../../src/sdk/handler.ts";
import { workflow } from "../../src/sdk/workflow.ts";
import { isRejection, RondoError } from "../../src/std/rejection.ts";

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
    ["a phase twice", () => base.phase("a", spec), 'phase "a": is defined twice (phase names are unique'],
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
    ["returns twice", () => base.returns(nothing).returns(nothing), "returns: is given twice"],
    [
      "a handler without process",
      () => base.phase("b", { enumerate: () => [1] }),
      "has no process (give process, or batch",
    ],
    [
      "batch without processBatch",
      () => base.phase("b", { process: nothing, batch: 2 }),
      "batch and processBatch go together",
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
      'has the handler "x" beside "y", which is none',
    ],
    ["a function for a handler", () => untyped["phase"]?.("b", nothing), 'phase "b": has no handlers'],
    [
      "a decision without among",
      () => base.phase("b", {}, { next: () => "a" }),
      "a decision names the phases it can choose",
    ],
    [
      "among without a decision",
      () => base.phase("b", {}, { among: ["a"] }),
      "has no next function to choose",
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
      "command.cmd_type: must be a text",
    ],
    ["a script without runs", () => base.script("b", { runs: [] }), "must be a list of at least one run"],
    ["a child with a bad name", () => base.child("b", "my child"), '"my child" is not a name'],
  ];
  test.each(cases)("%s", (_what, build, text) => {
    const error = refusal(build);
    expect(error.message).toContain(text);
    expect(["invalid_definition", "not_storable"]).toContain(error.code);
  });
});

describe("an absurd option is refused in the kernel's own words:", () => {
  const options: [option: string, value: unknown][] = [
    ["timeout", 0],
    ["timeout", "1 day"],
    ["heartbeat", "10ms"],
    ["heartbeat", "2d"],
    ["concurrency", 0],
    ["concurrency", 1.5],
    ["concurrencyPerKey", 3],
    ["priority", 5_000],
    ["tolerate", "101%"],
    ["tolerate", "few"],
    ["tolerate", -1],
    ["rate", { limit: 0, per: "1s" }],
    ["rate", { limit: 1, per: 0 }],
    ["rate", { limit: 1, per: "1s", burst: 1 }],
    ["retry", { attempts: 0 }],
    ["retry", { crashes: 251 }],
    ["retry", { backoff: "linear" }],
    ["retry", { min: "5m", max: "1s" }],
    ["retry", { max: 10 }],
    ["retry", { tries: 1 }],
    ["retry", 3],
    ["key", "customer"],
    ["identity", 7],
    ["version", ""],
  ];
  test.each(options)("%s: %j", (option, value) => {
    const error = refusal(() => base.phase("b", { process: nothing, [option]: value }));
    const handlers = { b: { use: "w.b", [option]: value } };
    const kernel = parseDefinition({ name: "w", phases: [{ name: "b", handlers }] });
    if (!isRejection(kernel)) throw new Error("the kernel accepts it");
    expect(error.message).toBe(new RondoError(kernel).message);
  });

  test.each(["a", "a-b_1", "", "1a", "a b", "a.b", "é", "a".repeat(40), "a".repeat(41), "a".repeat(151)])(
    "names: %j",
    (name) => {
      const accepts = (check: () => void) => expect(check).not.toThrow();
      const refuses = (check: () => void) => expect(check).toThrow(RondoError);
      (NAME_PATTERN.test(name) ? accepts : refuses)(() => checkName(name, "name"));
      (USE_PATTERN.test(name) ? accepts : refuses)(() => checkWireName(name, "use"));
    },
  );
});

describe("checked when the workflow is complete, as the kernel does:", () => {
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
    const error = refusal(() => checkWorkflow(built));
    expect(error.message).toContain(text);
    const kernel = parseDefinition(built.definition);
    expect(isRejection(kernel) && new RondoError(kernel).message).toBe(error.message);
  });

  test("forward references are fine", () => {
    const looped = base
      .phase("b", {}, { onError: "repair", next: () => "end", among: ["a", "end"] })
      .phase("end", {}, { final: true })
      .phase("repair", spec, { next: "a" });
    expect(() => checkWorkflow(looped)).not.toThrow();
    expect(isRejection(parseDefinition(looped.definition))).toBe(false);
  });
});
