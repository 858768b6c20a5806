/** One setting: its origins, its default and its decoder. */
import { NAME_PATTERN } from "../kernel/definition/definition.ts";
import { type Decode, listOf, mapped, text, where } from "../std/decode.ts";
import { durationMs } from "../std/duration.ts";

export interface Setting<T> {
  /** The flag that sets it, without dashes. */
  readonly flag?: string;
  /** The environment variable that sets it. */
  readonly env?: string;
  /** False: not in a file, since it belongs to one call or is secret. */
  readonly inFile: boolean;
  readonly fallback: T;
  /** Never shown. */
  readonly isSecret?: boolean;
  /** The value for people, where that is not plain JSON. */
  readonly show?: (value: T) => string;
  /** Holds paths that are meant from the folder of the file that names them. */
  readonly rebase?: (value: T, resolve: (path: string) => string) => T;
  /** The decoder of a given value; a promise where it is loaded on first use. */
  readonly decoder: () => Decode<T> | Promise<Decode<T>>;
}

/** A text that is not empty. */
export const filledText = text({ min: 1, what: "a text" });

/** A TCP port; as text too, since flags and variables are text. 0 means any free port. */
export const port: Decode<number> = mapped(
  where<string | number>(
    "a port",
    (value) => {
      const number = typeof value === "string" && /^\d{1,5}$/.test(value) ? Number(value) : value;
      return Number.isInteger(number) && (number as number) >= 0 && (number as number) <= 65_535;
    },
    "a whole number from 0 (any free one) to 65535",
  ),
  Number,
);

/** An http or https address, without slashes at its end. */
export const httpUrl: Decode<string> = mapped(
  where<string>(
    "an address",
    (value) => typeof value === "string" && URL.canParse(value) && /^https?:$/.test(new URL(value).protocol),
    'write it as "http://127.0.0.1:7777"',
  ),
  (url) => url.replace(/\/+$/, ""),
);

/** Milliseconds of a duration that is not shorter than this. In the environment, digits are milliseconds too. */
export function durationFrom(minMs: number): Decode<number> {
  const read = durationMs(minMs);
  return (value) => read(typeof value === "string" && /^\d+$/.test(value) ? Number(value) : value);
}

/** A list of texts that are not empty. */
export const texts: Decode<readonly string[]> = mapped(
  where("a list of texts", Array.isArray, 'such as ["a", "b"]'),
  listOf(filledText),
);

/** A whole number above zero. */
export function count(hint?: string): Decode<number> {
  return where(
    "a whole number above zero",
    (value) => Number.isSafeInteger(value) && (value as number) > 0,
    hint,
  );
}

/** The name of a project or a state store. */
export const settingName: Decode<string> = text({
  pattern: NAME_PATTERN,
  what: "a name: a letter, then up to 39 letters, digits, _ or -",
});
