import canonicalize from "canonicalize";
import { assert } from "./assert.ts";
import { sha256 } from "./hash.ts";
import type { Json } from "./json.ts";

/** Writes a JSON value in its canonical form (RFC 8785). */
export function canonicalJson(value: Json): string {
  const text = (canonicalize as unknown as (value: Json) => string | undefined)(value);
  assert(text !== undefined, "a JSON value has a canonical form");
  return text;
}

/** The SHA-256, in hex, of a value's canonical form (RFC 8785), which does not depend on the order of keys. */
export function contentHash(value: Json): string {
  return sha256(canonicalJson(value));
}
