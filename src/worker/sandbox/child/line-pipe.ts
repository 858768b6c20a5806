/**
 * The two pipes of the sandbox process: it reads orders from stdin and writes reports to stdout, one JSON line each. Both pipes
 * block, so log lines arrive while the script runs, and a parent that does not read slows the script down.
 */
import { readSync, writeSync } from "node:fs";
import type { ChildLimits, ChildReport, Order } from "./messages.ts";

const CHUNK_BYTES = 65_536;
const NEWLINE = 10;
const encoder = new TextEncoder();
const decoder = new TextDecoder();

export function send(report: ChildReport): void {
  const bytes = Buffer.from(`${JSON.stringify(report)}\n`);
  for (let at = 0; at < bytes.length; ) at += writeSync(1, bytes, at);
}

/** Yields orders from the parent process until it closes the pipe. */
export function* orders(): Generator<Order> {
  let parts: Buffer[] = [];
  for (;;) {
    const chunk = Buffer.allocUnsafe(CHUNK_BYTES);
    const size = readSync(0, chunk);
    if (size === 0) return;
    let rest = chunk.subarray(0, size);
    for (let end = rest.indexOf(NEWLINE); end >= 0; end = rest.indexOf(NEWLINE)) {
      const line = Buffer.concat([...parts, rest.subarray(0, end)]).toString();
      parts = [];
      rest = rest.subarray(end + 1);
      yield JSON.parse(line) as Order;
    }
    if (rest.length > 0) parts.push(rest);
  }
}

/** Writes the logs of one attempt. Long lines are cut. Lines above the total limits are dropped, with one notice. */
export function logWriter(
  limits: Pick<ChildLimits, "logLineBytes" | "logLines" | "logBytes">,
  write: (level: string, text: string) => void,
): (level: string, text: string, length: number) => void {
  let lines = 0;
  let bytes = 0;
  let full = false;
  return (level, text, length) => {
    if (full) return;
    const line = cutLine(text, { max: limits.logLineBytes, length });
    lines += 1;
    bytes += encoder.encode(line).length;
    if (lines > limits.logLines || bytes > limits.logBytes) {
      full = true;
      write("warn", `[logs end here: over ${limits.logLines} lines or ${limits.logBytes} bytes per attempt]`);
      return;
    }
    write(level, line);
  };
}

/** Cuts a line to `max` bytes of UTF-8. `length` is the line's length in characters before any cut. */
function cutLine(text: string, { max, length }: { max: number; length: number }): string {
  const encoded = encoder.encode(text);
  if (encoded.length <= max && length <= text.length) return text.toWellFormed();
  const notice = ` [cut: the line has ${length} characters]`;
  let end = Math.min(encoded.length, max - notice.length);
  // The cut must not split a character, so its end moves back to the start of one.
  while (end > 0 && ((encoded[end] ?? 0) & 0xc0) === 0x80) end -= 1;
  return decoder.decode(encoded.subarray(0, end)) + notice;
}
