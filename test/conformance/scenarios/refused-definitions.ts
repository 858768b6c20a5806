/** Definitions that are refused, for tests: what they are, and what is said of them. */
import { expect } from "vitest";
import { parseDefinition } from "../../../src/kernel/definition/parse-definition.ts";
import { isRejection } from "../../../src/std/rejection.ts";

/** What is given, and how the refusal begins. */
export type RefusedCase = [what: string, data: unknown, message: string];

/** A definition whose first phase is this. */
export const one = (phase: object, ...more: object[]) => ({
  name: "w",
  phases: [{ name: "a", ...phase }, ...more],
});

/** It is refused, with a message that begins so and, if one is given, a hint that holds this. */
export function expectRefusal(data: unknown, message: string, hint = ""): void {
  const refused = parseDefinition(data);
  expect(isRejection(refused)).toBe(true);
  if (!isRejection(refused)) return;
  expect(refused.message.slice(0, message.length)).toBe(message);
  expect(refused.hint ?? "").toContain(hint);
  expect(["invalid_definition", "too_large", "not_storable", "too_deep"]).toContain(refused.code);
  expect(refused.path).toBeTruthy();
}
