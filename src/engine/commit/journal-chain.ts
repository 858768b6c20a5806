/** The journal's chain hash: each write's hash covers the one before it, so a row changed anywhere shows. */
import { hash } from "node:crypto";
import type { Entry } from "../../kernel/journal/journal-entry.ts";

/** The chain hash after `entries`. */
export function extendChain(before: string, entries: readonly Entry[]): string {
  if (entries.length === 0) return before;
  let text = before;
  for (const entry of entries) text += `\n${entry.seq} ${entry.body}`;
  return hash("sha256", text, "hex").slice(0, 32);
}
