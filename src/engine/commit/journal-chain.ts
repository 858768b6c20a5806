/** Computes the hash chain of a journal. The hash of each write covers the hash of the write before, so a changed row is detected. */
import { hash } from "node:crypto";
import type { Entry } from "../../kernel/journal/journal-entry.ts";

export function extendChain(before: string, entries: readonly Entry[]): string {
  if (entries.length === 0) return before;
  let text = before;
  for (const entry of entries) text += `\n${entry.seq} ${entry.body}`;
  return hash("sha256", text, "hex").slice(0, 32);
}
