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
  /** Those that hold for the life of the worker. */
  readonly #given = new Set<string>();
  readonly #brought = new Set<string>();
  /** Made on need. */
  #pattern: RegExp | null = null;

  constructor(given: readonly string[] = []) {
    for (const value of given) this.#given.add(checked(value));
  }

  get isEmpty(): boolean {
    return this.#given.size === 0 && this.#brought.size === 0;
  }

  /** Takes one more, which a task brought. */
  add(value: string): void {
    if (this.#given.has(checked(value))) return;
    // The one that was brought last is the last to be forgotten.
    const isKnown = this.#brought.delete(value);
    this.#brought.add(value);
    if (isKnown) return;
    const [oldest] = this.#brought;
    if (this.#brought.size > BROUGHT_MAX && oldest !== undefined) this.#brought.delete(oldest);
    this.#pattern = null;
  }

  /** The text without secrets. */
  redact(text: string): string {
    if (this.isEmpty) return text;
    this.#pattern ??= patternOf([...this.#given, ...this.#brought]);
    return text.replace(this.#pattern, REDACTED);
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

/** Finds all of them, also as they stand in JSON; the longest first, since one may be a part of another. */
function patternOf(values: readonly string[]): RegExp {
  const forms = new Set<string>();
  for (const value of values) {
    forms.add(value.toWellFormed());
    forms.add(JSON.stringify(value).slice(1, -1));
    const lines = value.split(/\r?\n/);
    if (lines.length > 1) for (const line of lines) if (line.length >= LINE_CHARS_MIN) forms.add(line);
  }
  const escaped = [...forms]
    .sort((a, b) => b.length - a.length)
    .map((form) => form.replace(/[\\^$.*+?()[\]{}|/-]/g, "\\$&"));
  return new RegExp(escaped.join("|"), "g");
}
