/**
 * Writes lines and then a seal. The seal is a last line with the number of lines and their SHA-256, by which a changed file is detected.
 */
import { createHash } from "node:crypto";
import { createReadStream } from "node:fs";
import { jsonFields } from "../std/decode.ts";
import { isRejection, type Rejection, RondoError, reject } from "../std/rejection.ts";
import { FORMAT, type Line, type LineOf, parseLine } from "./line.ts";

/** The approximate number of bytes that are written at a time. */
const CHUNK = 262_144;
/** The longest line that is read, in bytes. An export never has a line of this length. */
const LINE_MAX = 268_435_456;
const NEWLINE = 10;

/** Yields the lines as bytes, and the seal after them. */
export async function* seal(lines: AsyncIterable<Line>): AsyncGenerator<Buffer> {
  const hash = createHash("sha256");
  let count = 0;
  let texts: string[] = [];
  let chars = 0;
  const take = (): Buffer => {
    const chunk = Buffer.from(texts.join(""));
    texts = [];
    chars = 0;
    return chunk;
  };
  for await (const line of lines) {
    const text = `${JSON.stringify(line)}\n`;
    count++;
    texts.push(text);
    chars += text.length;
    if (chars < CHUNK) continue;
    const chunk = take();
    hash.update(chunk);
    yield chunk;
  }
  hash.update(texts.join(""));
  const end: LineOf<"end"> = { kind: "end", lines: count, sha256: hash.digest("hex") };
  texts.push(`${JSON.stringify(end)}\n`);
  yield take();
}

/** Reads a file to its end and checks its seal. Throws a `RondoError` that says what is wrong with the file. */
export async function checkSeal(file: string): Promise<Rejection | null> {
  const hash = createHash("sha256");
  let count = 0;
  let last: Buffer | null = null;
  for await (const line of bytesOfLines(file)) {
    if (isRejection(line)) return line;
    if (last !== null) {
      hash.update(last).update("\n");
      count++;
    }
    if (count === 1 && last !== null) {
      const wrong = checkHeader(file, last);
      if (wrong !== null) return wrong;
    }
    last = line;
  }
  if (count === 0) return foreign(file);
  const end = endOf(last);
  if (end === null) return broken(file, "the end of the file is missing: it was cut off");
  if (end.lines !== count) return broken(file, `the file has ${count} lines instead of ${String(end.lines)}`);
  if (end.sha256 !== hash.digest("hex"))
    return broken(file, "the content has changed since the file was written");
  return null;
}

/** Reads the lines of a file whose seal was checked. */
export async function* readLines(file: string): AsyncGenerator<Line> {
  let number = 0;
  for await (const line of bytesOfLines(file)) {
    if (isRejection(line)) throw new RondoError(line);
    yield parseLine(line.toString("utf8"), ++number);
  }
}

function checkHeader(file: string, line: Buffer): Rejection | null {
  const header = jsonFields(line.toString("utf8"));
  if (header?.["kind"] !== "header") return foreign(file);
  if (header["format"] === FORMAT) return null;
  return reject(
    "invalid_input",
    `${file} is an export in format ${String(header["format"])}, but this version reads format ${FORMAT}`,
    {
      hint: `import the file with the version of Rondo that wrote it (${String(header["rondo"])}), or a newer one`,
    },
  );
}

function foreign(file: string): Rejection {
  return reject("invalid_input", `${file} is not an export of Rondo`, {
    hint: "give a file that `rondo export` has written",
  });
}

function broken(file: string, why: string): Rejection {
  return reject("invalid_input", `${file} is not complete: ${why}; nothing was imported`, {
    hint: "export the store again, or copy the file again",
  });
}

function endOf(line: Buffer | null): { lines: unknown; sha256: unknown } | null {
  const fields = line === null ? null : jsonFields(line.toString("utf8"));
  return fields?.["kind"] === "end" ? { lines: fields["lines"], sha256: fields["sha256"] } : null;
}

/** Splits a file into lines. Only ` ` ends a line, because JSON texts may contain other line separators. */
async function* bytesOfLines(file: string): AsyncGenerator<Buffer | Rejection> {
  let begun: Buffer[] = [];
  let length = 0;
  for await (const chunk of createReadStream(file, { highWaterMark: CHUNK }) as AsyncIterable<Buffer>) {
    let from = 0;
    for (let at = chunk.indexOf(NEWLINE); at >= 0; at = chunk.indexOf(NEWLINE, from)) {
      begun.push(chunk.subarray(from, at));
      yield begun.length === 1 ? (begun[0] as Buffer) : Buffer.concat(begun);
      begun = [];
      length = 0;
      from = at + 1;
    }
    if (from === chunk.length) continue;
    begun.push(chunk.subarray(from));
    length += chunk.length - from;
    if (length > LINE_MAX) {
      yield foreign(file);
      return;
    }
  }
  if (begun.length > 0) yield Buffer.concat(begun);
}
