// Inputs at start: stored as the caller's JSON, refused with the path of what is wrong.
import { describe, expect, test } from "vitest";
import { z } from "zod";
import { validateInput } from "../../src/sdk/validate-input.ts";
import { workflow } from "../../src/sdk/workflow.ts";

const typed = workflow({
  name: "typed",
  input: z.object({
    bucket: z.string(),
    size: z.coerce.number().default(3),
    tags: z.array(z.string()).optional(),
  }),
});
const open = workflow({ name: "open" });

describe("an input", () => {
  test("is stored as the caller wrote it, not as the schema makes it", async () => {
    expect(await validateInput(typed, { bucket: "b", size: "7", more: 1 })).toBe(
      '{"bucket":"b","size":"7","more":1}',
    );
    expect(await validateInput(open, undefined)).toBe("null");
    expect(await validateInput(open, { at: new Date(0) })).toBe('{"at":"1970-01-01T00:00:00.000Z"}');
  });

  test("that the schema refuses is named by path and message", async () => {
    expect(await validateInput(typed, { bucket: 1 })).toEqual({
      kind: "rejection",
      code: "invalid_input",
      path: "input.bucket",
      message: "input.bucket: Invalid input: expected string, received number",
    });
    expect(await validateInput(typed, { tags: ["a", 1] })).toMatchObject({
      path: "input.bucket",
      message: expect.stringMatching(/, and 1 more$/),
    });
    expect(await validateInput(typed, { bucket: "b", tags: ["a", 1] })).toMatchObject({
      path: "input.tags[1]",
    });
    expect(await validateInput(typed, undefined)).toMatchObject({ code: "invalid_input", path: "input" });
  });

  test("is checked as stored, since that is what handlers see", async () => {
    const dated = workflow({ name: "dated", input: z.object({ at: z.date() }) });
    expect(await validateInput(dated, { at: new Date(0) })).toMatchObject({
      code: "invalid_input",
      path: "input.at",
    });
  });

  const cycle: Record<string, unknown> = {};
  cycle["self"] = cycle;
  const refused: [what: string, input: unknown, code: string, path: string][] = [
    ["a Map", { a: { m: new Map() } }, "not_storable", "input.a.m"],
    ["a function", { f: () => 1 }, "not_storable", "input.f"],
    ["a BigInt", { n: [1n] }, "not_storable", "input.n[0]"],
    ["NaN", { n: Number.NaN }, "not_storable", "input.n"],
    ["bytes", { b: new Uint8Array(1) }, "not_storable", "input.b"],
    ["a class instance", { e: new (class Money {})() }, "not_storable", "input.e"],
    ["undefined in a list", { l: [undefined] }, "not_storable", "input.l[0]"],
    ["a cycle", cycle, "not_storable", "input.self"],
    ["more than a MiB", { text: "x".repeat(1_048_577) }, "too_large", "input"],
  ];
  test.each(refused)("with %s is refused", async (_what, input, code, path) => {
    expect(await validateInput(open, input)).toMatchObject({ kind: "rejection", code, path });
  });
});

describe("an async schema", () => {
  const checked = workflow({
    name: "checked",
    input: z.object({ id: z.string().refine(async (id) => id !== "taken", "is taken") }),
  }).phase("a", { process: ({ task }) => task });

  test("checks the start", async () => {
    expect(await validateInput(checked, { id: "free" })).toBe('{"id":"free"}');
    expect(await validateInput(checked, { id: "taken" })).toMatchObject({ message: "input.id: is taken" });
  });

  test("gives handlers a promise", async () => {
    const parseInput = checked.handlers[0]?.parseInput;
    await expect(parseInput?.({ id: "free" })).resolves.toEqual({ id: "free" });
    await expect(parseInput?.({ id: "taken" })).rejects.toMatchObject({ name: "Fatal" });
  });
});

test("handlers see the schema's output, and what it refuses is fatal", () => {
  const parseInput = typed.phase("a", { process: () => null }).handlers[0]?.parseInput;
  expect(parseInput?.({ bucket: "b", size: "7", more: 1 })).toEqual({ bucket: "b", size: 7 });
  expect(() => parseInput?.({})).toThrow("input.bucket: ");
});
