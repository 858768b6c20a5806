/**
 * The options of the functions that a program calls first (`connect`, `openRondo`, `testRondo`, `simulate`). Plain JavaScript
 * does not check them: an option that is misspelt or of another type is refused with a hint, and not met as a `TypeError`.
 */
import { type Decode, isObject, optional, refusal, where } from "../std/decode.ts";
import { type Rejection, reject } from "../std/rejection.ts";

/** A function that is called: its name, an example, and its options. */
export interface Called {
  readonly name: string;
  readonly example: string;
  readonly options: Decode<unknown>;
}

/** The rejection of options that the function does not take; null if it takes them. An undefined option is not given. */
export function checkOptions(given: unknown, { name, example, options }: Called): Rejection | null {
  if (!isObject(given))
    return reject("invalid_input", `${name} takes an object of options`, { hint: example });
  const refused = refusal(options, given);
  return refused === null ? null : { hint: example, ...refused };
}

export const anyFunction = optional(where("a function", (value) => typeof value === "function"));
export const anyObject = optional(where("an object", isObject));
