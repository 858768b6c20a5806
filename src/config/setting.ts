/** One setting: its origins, its default and its decoder. */
import { webhookKey } from "../commands/post-ops/webhook-secrets.ts";
import { NAME_PATTERN } from "../kernel/definition/definition.ts";
import { type Decode, listOf, mapOf, mapped, object, optional, secret, text, where } from "../std/decode.ts";
import { durationMs } from "../std/duration.ts";

export interface Setting<T> {
  /** The flag of the setting, without dashes. */
  readonly flag?: string;
  /** The environment variable of the setting. */
  readonly env?: string;
  /** Whether the configuration file may contain the setting. False for secrets and for settings of a single call. */
  readonly inFile: boolean;
  readonly fallback: T;
  /** Whether the value is a secret, which is never shown. */
  readonly isSecret?: boolean;
  /** Formats the value for people; by default it is shown as JSON. */
  readonly show?: (value: T) => string;
  /** Resolves relative paths in the value against the folder of the configuration file. */
  readonly rebase?: (value: T, resolve: (path: string) => string) => T;
  /** Returns the decoder of the setting; a promise if the decoder's module is loaded on first use. */
  readonly decoder: () => Decode<T> | Promise<Decode<T>>;
}

/**
 * The shortest time for which ids of events may be remembered. It is longer than the ten minutes in which a repeated webhook is accepted.
 */
export const EVENTS_KEPT_MIN_MS = 900_000;

/** Decodes a non-empty string. */
export const filledText = text({ min: 1, what: "a text" });

/** Decodes a TCP port, given as a number or a string. 0 means any free port. */
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

/** Decodes an http or https URL, without trailing slashes. */
export const httpUrl: Decode<string> = mapped(
  where<string>(
    "an address",
    (value) => typeof value === "string" && URL.canParse(value) && /^https?:$/.test(new URL(value).protocol),
    'write it as "http://127.0.0.1:7777"',
  ),
  (url) => url.replace(/\/+$/, ""),
);

/** Decodes a duration of at least `minMs` to milliseconds. In the environment, plain digits are milliseconds too. */
export function durationFrom(minMs: number): Decode<number> {
  const read = durationMs(minMs);
  return (value) => read(typeof value === "string" && /^\d+$/.test(value) ? Number(value) : value);
}

/** Decodes a list of non-empty strings. */
export const texts: Decode<readonly string[]> = mapped(
  where("a list of texts", Array.isArray, 'such as ["a", "b"]'),
  listOf(filledText),
);

/** Decodes the origin of a page, or `*` for all origins. */
const origin: Decode<string> = mapped(
  where<string>(
    "an origin",
    (value) => value === "*" || (typeof value === "string" && originOf(value) !== null),
    'such as "https://app.example" (scheme and host, without a path), or "*" for every origin',
  ),
  (value) => originOf(value) ?? value,
);

function originOf(value: string): string | null {
  if (!URL.canParse(value)) return null;
  const { origin: found, protocol, pathname, search, hash, username } = new URL(value);
  const isBare = pathname === "/" && search === "" && hash === "" && username === "";
  return isBare && /^https?:$/.test(protocol) ? found : null;
}

const corsObject = object({ origins: listOf(origin) });

/** Decodes the origins of pages that may use the API. In the environment they are separated by commas. */
export const cors: Decode<{ readonly origins: readonly string[] }> = (value) =>
  corsObject(typeof value === "string" ? { origins: value.split(",").map((part) => part.trim()) } : value);

/** Decodes a whole number above zero. */
export function count(hint?: string): Decode<number> {
  return where(
    "a whole number above zero",
    (value) => Number.isSafeInteger(value) && (value as number) > 0,
    hint,
  );
}

/** Decodes the name of a project or a state store. */
export const settingName: Decode<string> = text({
  pattern: NAME_PATTERN,
  what: "a name: a letter, then up to 39 letters, digits, _ or -",
});

/** A source of signed webhooks that become events. */
export interface WebhookSettings {
  /** The secrets with which the source signs. */
  readonly secrets: readonly string[];
  /** The project of the events. */
  readonly project?: string;
}

/** Decodes sources of webhooks. Errors show none of the secrets. */
export const webhooks: Decode<Readonly<Record<string, WebhookSettings>>> = mapOf(
  object({
    secrets: secret<readonly string[]>(
      "a list of secrets",
      (value) => Array.isArray(value) && value.length > 0 && value.every((one) => webhookKey(one) !== null),
      "each secret has at least 16 bytes: whsec_ and base64, or any other text",
    ),
    project: optional(settingName),
  }),
  { key: settingName },
);
