/** Checks the options of the entry points, since plain JavaScript has no type check. */
import { type Decode, isObject, optional, refusal, where } from "../std/decode.ts";
import { type Rejection, reject } from "../std/rejection.ts";

/** An entry point: its name, an example, and its options. */
export interface Called {
  readonly name: string;
  readonly example: string;
  readonly options: Decode<unknown>;
}

/** The rejection of invalid options; null if they are valid. An undefined option counts as missing. */
export function checkOptions(given: unknown, { name, example, options }: Called): Rejection | null {
  if (!isObject(given))
    return reject("invalid_input", `${name} takes an object of options`, { hint: example });
  const refused = refusal(options, given);
  return refused === null ? null : { hint: example, ...refused };
}

export const anyFunction = optional(where("a function", (value) => typeof value === "function"));
export const anyObject = optional(where("an object", isObject));
