/**
 * Values that must not be seen: in whatever is logged, and in what errors say, `[redacted]` stands in their place. They
 * are known to the whole worker, since what one task reads another may write.
 */
import { RondoError, reject } from "../../std/rejection.ts";

const REDACTED = "[redacted]";
/** Shorter ones are found where nothing is secret. */
const CHARS_MIN = 4;
/** Lines of a secret of several lines that are looked for on their own. */
const LINE_CHARS_MIN = 8;
/** Secrets that tasks bring: beyond, the oldest is forgotten. */
const BROUGHT_MAX = 1_000;

export class Secrets {
  /** Those that hold for the life of the worker, each with the forms in which it can stand in a text. */
  readonly #given = new Map<string, readonly string[]>();
  readonly #brought = new Map<string, readonly string[]>();
  /** All forms, the longest first, since one may be a part of another; null: to be made anew. */
  #forms: readonly string[] | null = null;

  constructor(given: readonly string[] = []) {
    for (const value of given) this.#given.set(checked(value), formsOf(value));
  }

  get isEmpty(): boolean {
    return this.#given.size === 0 && this.#brought.size === 0;
  }

  /** Takes one more, which a task brought. */
  add(value: string): void {
    if (this.#given.has(checked(value))) return;
    const known = this.#brought.get(value);
    // The one that was brought last is the last to be forgotten.
    this.#brought.delete(value);
    this.#brought.set(value, known ?? formsOf(value));
    if (known !== undefined) return;
    const [oldest] = this.#brought.keys();
    if (this.#brought.size > BROUGHT_MAX && oldest !== undefined) this.#brought.delete(oldest);
    this.#forms = null;
  }

  /** The text without secrets. */
  redact(text: string): string {
    if (this.isEmpty) return text;
    this.#forms ??= [...this.#given.values(), ...this.#brought.values()]
      .flat()
      .sort((a, b) => b.length - a.length);
    let redacted = text;
    for (const form of this.#forms)
      if (redacted.includes(form)) redacted = redacted.replaceAll(form, () => REDACTED);
    return redacted;
  }

  /** A JSON text with no secret in any of its texts and keys. */
  redactJson(json: string): string {
    if (this.isEmpty) return json;
    const walk = (value: unknown): unknown => {
      if (typeof value === "string") return this.redact(value);
      if (typeof value !== "object" || value === null) return value;
      if (Array.isArray(value)) return value.map(walk);
      return Object.fromEntries(
        Object.entries(value).map(([key, member]) => [this.redact(key), walk(member)]),
      );
    };
    return JSON.stringify(walk(JSON.parse(json)));
  }
}

/** The secret; throws if it is none. What is thrown does not hold it. */
function checked(value: unknown): string {
  if (typeof value === "string" && value.length >= CHARS_MIN) return value;
  throw new RondoError(
    reject("invalid_input", `a secret must be a text of at least ${CHARS_MIN} characters`, {
      hint: "shorter texts are everywhere: do not log what holds them",
    }),
  );
}

/** As it is, as it stands in JSON, and its longer lines if it has several. */
function formsOf(value: string): string[] {
  const lines = value.split(/\r?\n/).filter(({ length }) => length >= LINE_CHARS_MIN);
  return [...new Set([value.toWellFormed(), JSON.stringify(value).slice(1, -1), ...lines])];
}
