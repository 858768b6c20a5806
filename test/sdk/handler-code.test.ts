// The code that the builder hands to a worker: what reaches user functions.
import { describe, expect, test } from "vitest";
import { z } from "zod";
import { parseDefinition } from "../../src/kernel/definition/parse-definition.ts";
import { Fatal } from "../../src/sdk/errors.ts";
import { workflow } from "../../src/sdk/workflow.ts";
import { unwrap } from "../../src/std/rejection.ts";
import type { HandlerCode, ProcessContext } from "../../src/worker/handler-code.ts";

const FATAL = Symbol.for("rondo.fatal");
const schema = z.object({ size: z.coerce.number<string>() });

function code(built: { handlers: readonly HandlerCode[] }, use = "w.a"): HandlerCode {
  const found = built.handlers.find((handler) => handler.use === use);
  if (found === undefined) throw new Error(`no code for ${use}`);
  return found;
}

function context(members: Partial<ProcessContext>): ProcessContext {
  return members as ProcessContext;
}

describe("process", () => {
  test("has the input as its task where nothing enumerates, if a schema changes it", () => {
    const process = () => null;
    expect(code(workflow({ name: "w", input: schema }).phase("a", { process })).taskIsInput).toBe(true);
    expect(code(workflow({ name: "w" }).phase("a", { process })).taskIsInput).toBe(false);
    const listed = workflow({ name: "w", input: schema }).phase("a", { tasks: [1], process });
    expect(code(listed).taskIsInput).toBe(false);
  });

  test("sees what was enumerated, and the rest of the worker's context", () => {
    const built = workflow({ name: "w", input: schema }).phase("a", {
      enumerate: () => [1],
      process: ({ task, input, attempt }) => ({ task, input, attempt }),
    });
    const given = context({ input: { size: 7 }, task: 1, attempt: 2 });
    expect(code(built).process?.(given)).toEqual({ task: 1, input: { size: 7 }, attempt: 2 });
  });

  test("keeps its spec as this", () => {
    const spec = {
      factor: () => 3,
      process(): number {
        return (this as unknown as { factor(): number }).factor();
      },
    };
    const { factor: _factor, ...known } = spec;
    const built = workflow({ name: "w" }).phase("a", Object.setPrototypeOf(known, spec) as typeof known);
    expect(code(built).process?.(context({}))).toBe(3);
  });

  test("gets the payload of a wait parsed by its schema; one it refuses is fatal", async () => {
    const { parsingWait } = code(workflow({ name: "w" }).phase("a", { process: () => null }));
    const asked: unknown[] = [];
    const waitFor = (payload: unknown) =>
      parsingWait?.((...given) => {
        asked.push(given);
        return Promise.resolve(payload);
      })("n", { schema, timeout: "1m" });
    await expect(waitFor({ size: "7" })).resolves.toEqual({ size: 7 });
    expect(asked).toEqual([["n", { timeout: "1m" }]]);
    await expect(waitFor({ size: "x" })).rejects.toMatchObject({
      [FATAL]: true,
      message: expect.stringContaining('signal "n".size: '),
    });
  });

  test("that waits with a schema that is none has failed for good, before it waits", async () => {
    const { parsingWait } = code(workflow({ name: "w" }).phase("a", { process: () => null }));
    const waitFor = parsingWait?.(() => Promise.reject(new Error("it waited")));
    await expect(waitFor?.("n", { schema: { type: "string" } })).rejects.toMatchObject({
      [FATAL]: true,
      message: 'waitFor "n": schema is not a Standard Schema',
    });
  });

  test("in batches has the input as its only task", () => {
    const spec = { batch: 5, processBatch: () => [null] };
    expect(code(workflow({ name: "w", input: schema }).phase("a", spec)).taskIsInput).toBe(true);
  });
});

describe("keys and identities", () => {
  test("come from JSON Pointers", () => {
    const built = workflow({ name: "w" }).phase("a", {
      enumerate: () => [{ customer: { "a/b": ["x", 7] } }],
      process: () => null,
      key: "/customer/a~1b/0",
      identity: "/customer/a~1b/1",
    });
    const { key, identity } = code(built);
    const task = { customer: { "a/b": ["x", 7] } };
    expect([key?.(task), identity?.(task)]).toEqual(["x", "7"]);
    expect(() => key?.({ customer: null })).toThrow(Fatal);
    expect(() => key?.({})).toThrow(
      'the key of a task must be a text or a number, but "/customer/a~1b/0" gives nothing',
    );
    expect(built.definition.phases[0]?.handlers["a"]).toMatchObject({ key: "/customer/a~1b/0" });
  });

  test("group tasks for rates, which are stored in milliseconds", () => {
    const built = workflow<{ customer: string }[]>({ name: "w" }).phase("a", {
      enumerate: ({ input }) => input,
      key: ({ customer }) => customer,
      rate: { limit: 100, per: "1s", spread: true },
      ratePerKey: { limit: 5, per: "1m", spread: false },
      process: () => null,
    });
    const stored = unwrap(parseDefinition(built.definition));
    expect(stored.phases[0]?.handlers["a"]).toMatchObject({
      key: true,
      rate: { limit: 100, per: 1_000, spread: true },
    });
    // The stored form leaves out what is the default.
    expect(stored.phases[0]?.handlers["a"]?.ratePerKey).toEqual({ limit: 5, per: 60_000 });
  });

  test("come from functions, which need code that enumerates", () => {
    const built = workflow<{ customer: string }>({ name: "w" }).phase("a", {
      process: () => null,
      key: ({ customer }) => customer,
      concurrencyPerKey: 5,
    });
    const { key, enumerate } = code(built);
    expect(key?.({ customer: "acme" })).toBe("acme");
    expect(enumerate?.({ input: { customer: "acme" } } as never)).toEqual([{ customer: "acme" }]);
    expect(built.definition.phases[0]?.handlers["a"]).toEqual({
      use: "w.a",
      enumerate: { use: "w.a" },
      key: true,
      concurrencyPerKey: 5,
    });
  });
});

describe("decisions and outputs", () => {
  test("are answers, with the input parsed like everywhere", () => {
    const built = workflow({ name: "w", input: schema })
      .phase(
        "a",
        { process: () => null },
        { next: ({ input }) => (input.size > 1 ? "a" : "b"), among: ["a", "b"] },
      )
      .phase("b", {})
      .returns(({ input }) => input.size);
    const next = code(built, "w.a.next");
    const returns = code(built, "w.returns");
    const input = next.parseInput?.({ size: "2" });
    expect(next.answer?.(context({ input }))).toBe("a");
    expect(returns.answer?.(context({ input }))).toBe(2);
    expect(returns.parseInput).toBeTypeOf("function");
  });
});
