/** Finds the position of an error in a JSON text. Messages of `JSON.parse` only sometimes contain the position. */

/** Returns the index of the first wrong character, or the length of the text if the text ends too early. */
export function jsonErrorAt(text: string): number {
  const scanner = new Scanner(text);
  if (scanner.value()) scanner.space();
  return scanner.at;
}

/** Returns the line and column of an index in a text, both counted from 1. */
export function lineAndColumn(text: string, index: number): { line: number; column: number } {
  const before = text.slice(0, index).split("\n");
  return { line: before.length, column: (before.at(-1) as string).length + 1 };
}

const STRING = /"(?:[\u0020\u0021\u0023-\u005b\u005d-\u{10ffff}]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*/uy;
const NUMBER = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?/y;
const WORD = /true|false|null/y;
/** The deepest nesting that is scanned. Rondo cannot store values that are nested deeper. */
const DEPTH_MAX = 1_000;
const SPACE = /[ \t\n\r]*/y;

/** A scanner of JSON. Each method returns false if the text at `at` is wrong, and leaves `at` at the error. */
class Scanner {
  at = 0;
  readonly #text: string;
  #depth = 0;

  constructor(text: string) {
    this.#text = text;
  }

  value(): boolean {
    this.space();
    switch (this.#text[this.at]) {
      case "{":
        return this.#list("}", () => this.#member());
      case "[":
        return this.#list("]", () => this.value());
      case '"':
        return this.#string();
      default:
        return this.#take(WORD) || this.#take(NUMBER);
    }
  }

  space(): boolean {
    return this.#take(SPACE);
  }

  #member(): boolean {
    this.space();
    if (this.#text[this.at] !== '"' || !this.#string()) return false;
    this.space();
    return this.#char(":") && this.value();
  }

  #list(end: string, item: () => boolean): boolean {
    if (++this.#depth > DEPTH_MAX) return false;
    this.at++;
    this.space();
    let fits = true;
    if (this.#text[this.at] !== end) {
      do {
        fits = item();
        if (fits) this.space();
      } while (fits && this.#char(","));
    }
    this.#depth--;
    return fits && this.#char(end);
  }

  #string(): boolean {
    this.#take(STRING);
    return this.#char('"');
  }

  #char(wanted: string): boolean {
    if (this.#text[this.at] !== wanted) return false;
    this.at++;
    return true;
  }

  #take(pattern: RegExp): boolean {
    pattern.lastIndex = this.at;
    const match = pattern.exec(this.#text);
    if (match === null) return false;
    this.at += match[0].length;
    return true;
  }
}
