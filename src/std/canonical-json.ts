import { sha256 } from "./hash.ts";
import type { Json } from "./json.ts";

/** Writes a JSON value in its canonical form (RFC 8785). Throws for a number or a text that has no canonical form. */
export function canonicalJson(value: Json): string {
  if (typeof value === "string") {
    if (!value.isWellFormed()) throw new Error("a text with a lone surrogate has no canonical form");
    return JSON.stringify(value);
  }
  if (typeof value === "number" && !Number.isFinite(value)) throw new Error(`${value} has no canonical form`);
  if (typeof value !== "object" || value === null) return JSON.stringify(value);
  return Array.isArray(value)
    ? canonicalList(value)
    : canonicalObject(value as { readonly [key: string]: Json });
}

/** The SHA-256, in hex, of a value's canonical form (RFC 8785), which does not depend on the order of keys. */
export function contentHash(value: Json): string {
  return sha256(canonicalJson(value));
}

function canonicalList(list: readonly (Json | undefined)[]): string {
  let text = "";
  for (const value of list) text += `${text === "" ? "" : ","}${canonicalJson(value ?? null)}`;
  return `[${text}]`;
}

/** Keys are sorted by their UTF-16 code units, which is the order of `sort`. A member that is undefined does not count. */
function canonicalObject(object: { readonly [key: string]: Json | undefined }): string {
  let text = "";
  for (const key of Object.keys(object).sort()) {
    const value = object[key];
    if (value !== undefined) text += `${text === "" ? "" : ","}${canonicalJson(key)}:${canonicalJson(value)}`;
  }
  return `{${text}}`;
}
