/**
 * The options of what a program calls first (`connect`, `openRondo`, `testRondo`, `simulate`), which plain JavaScript does
 * not check: one that is misspelt or of another type is refused with what it should be, and not met as a `TypeError`.
 */
import { type Rejection, reject } from "../std/rejection.ts";

/** What an option must be, and whether a value is that. */
export interface OptionRule {
  readonly what: string;
  readonly is: (value: unknown) => boolean;
  readonly hint?: string;
  /** Refused if it is not given. */
  readonly isNeeded?: true;
}

/** What is called, how it is called, and its options. */
export interface Called {
  readonly name: string;
  readonly example: string;
  readonly options: Readonly<Record<string, OptionRule>>;
}

/** Why these options cannot be taken; null: they can. An option that is undefined is not given. */
export function checkOptions(given: unknown, { name, example, options }: Called): Rejection | null {
  const all = fieldsOf(given);
  if (all === null) return reject("invalid_input", `${name} takes an object of options`, { hint: example });
  const unknown = unknownOption(all, name, Object.keys(options));
  if (unknown !== null) return unknown;
  for (const [option, { what, is, hint = example, isNeeded }] of Object.entries(options)) {
    const value = all[option];
    if ((value !== undefined || isNeeded === true) && !is(value))
      return reject("invalid_input", `${option}: must be ${what}`, { path: option, hint });
  }
  return null;
}

/** The refusal of the first option that nothing has. */
export function unknownOption(
  given: Readonly<Record<string, unknown>>,
  of: string,
  known: readonly string[],
): Rejection | null {
  const unknown = Object.keys(given).find((name) => !known.includes(name));
  if (unknown === undefined) return null;
  return reject("unknown_field", `${of} has no option "${unknown.slice(0, 60)}"`, {
    path: unknown.slice(0, 60),
    hint: `known are: ${known.join(", ")}`,
  });
}

/** The fields of an object; null for anything else. */
export function fieldsOf(value: unknown): Record<string, unknown> | null {
  return typeof value === "object" && value !== null && !Array.isArray(value)
    ? (value as Record<string, unknown>)
    : null;
}

export const A_FUNCTION: OptionRule = { what: "a function", is: (value) => typeof value === "function" };

export const A_TEXT: OptionRule = { what: "a text", is: (value) => typeof value === "string" };
export const AN_OBJECT: OptionRule = { what: "an object", is: (value) => fieldsOf(value) !== null };
export const A_LIST: OptionRule = { what: "a list", is: Array.isArray };

/** A whole number from this one on. */
export function wholeFrom(min: number, hint?: string): OptionRule {
  return {
    what: `a whole number from ${min}`,
    is: (value) => Number.isSafeInteger(value) && (value as number) >= min,
    ...(hint === undefined ? {} : { hint }),
  };
}
