/** Limits the logs of one attempt: long lines are cut, and lines above the total are dropped. */
import type { ChildLimits } from "./messages.ts";

const encoder = new TextEncoder();
const decoder = new TextDecoder();

/** A writer that passes on lines up to its limits, plus one notice. */
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

/** Cuts a line to `max` bytes of UTF-8. `length` is its length in characters before any cut. */
export function cutLine(text: string, { max, length }: { max: number; length: number }): string {
  const encoded = encoder.encode(text);
  if (encoded.length <= max && length <= text.length) return text.toWellFormed();
  const notice = ` [cut: the line has ${length} characters]`;
  let end = Math.min(encoded.length, max - notice.length);
  // Back to the start of a character.
  while (end > 0 && ((encoded[end] ?? 0) & 0xc0) === 0x80) end -= 1;
  return decoder.decode(encoded.subarray(0, end)) + notice;
}
