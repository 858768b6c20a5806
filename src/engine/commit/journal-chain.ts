/** Computes the hash chain of a journal. The hash of each write covers the hash of the write before, so a changed row is detected. */
import { createHash, hash } from "node:crypto";
import { charsIn, type Entry } from "../../kernel/journal/journal-entry.ts";

/** Up to this many characters, one call over the joined text is faster. Above it, copying the text costs more than further calls. */
const JOINED_CHARS_MAX = 8_192;

export function extendChain(before: string, entries: readonly Entry[]): string {
  if (entries.length === 0) return before;
  return digestOf(before, entries).slice(0, 32);
}

function digestOf(before: string, entries: readonly Entry[]): string {
  if (charsIn(entries) > JOINED_CHARS_MAX) {
    const running = createHash("sha256").update(before);
    for (const { seq, body } of entries) running.update(`\n${seq} `).update(body);
    return running.digest("hex");
  }
  let text = before;
  for (const { seq, body } of entries) text += `\n${seq} ${body}`;
  return hash("sha256", text, "hex");
}
