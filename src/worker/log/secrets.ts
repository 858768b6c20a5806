/**
 * Redacts secrets in log lines and errors. All tasks of a worker share its secrets, since one task may log data that another
 * has read.
 */
import { RondoError, reject } from "../../std/rejection.ts";

const REDACTED = "[redacted]";
/** The shortest secret in characters: shorter ones would match ordinary text. */
const CHARS_MIN = 4;
/** If a secret has several lines, lines of at least this length are also redacted on their own. */
const LINE_CHARS_MIN = 8;
/** The most secrets that tasks may add. Beyond that, the oldest is dropped. */
const BROUGHT_MAX = 1_000;

export class Secrets {
  /** The secrets that are kept for the life of the worker. Each has all forms in which it can appear in a text. */
  readonly #given = new Map<string, readonly string[]>();
  readonly #brought = new Map<string, readonly string[]>();
  /** All forms of all secrets, the longest first, because one form may contain another. Null if the list must be computed again. */
  #forms: readonly string[] | null = null;

  constructor(given: readonly string[] = []) {
    for (const value of given) this.#given.set(checked(value), formsOf(value));
  }

  get isEmpty(): boolean {
    return this.#given.size === 0 && this.#brought.size === 0;
  }

  /** Adds a secret that a task passed to `secret`. */
  add(value: string): void {
    if (this.#given.has(checked(value))) return;
    const known = this.#brought.get(value);
    // The secret moves to the end of the list, so that it is the last one to be dropped.
    this.#brought.delete(value);
    this.#brought.set(value, known ?? formsOf(value));
    if (known !== undefined) return;
    const [oldest] = this.#brought.keys();
    if (this.#brought.size > BROUGHT_MAX && oldest !== undefined) this.#brought.delete(oldest);
    this.#forms = null;
  }

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

  /** Redacts the strings and keys of a JSON text. */
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

/** Checks and returns a secret. Throws if it is too short or not a string; the error does not contain the secret. */
function checked(value: unknown): string {
  if (typeof value === "string" && value.length >= CHARS_MIN) return value;
  throw new RondoError(
    reject("invalid_input", `a secret must be a text of at least ${CHARS_MIN} characters`, {
      hint: "shorter values match ordinary text: do not log values that contain them",
    }),
  );
}

/** Returns the forms of a secret: the secret itself, its form in JSON, and its longer lines if it has several. */
function formsOf(value: string): string[] {
  const lines = value.split(/\r?\n/).filter(({ length }) => length >= LINE_CHARS_MIN);
  return [...new Set([value.toWellFormed(), JSON.stringify(value).slice(1, -1), ...lines])];
}
