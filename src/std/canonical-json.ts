import canonicalize from "canonicalize";
import { assert } from "./assert.ts";
import { sha256 } from "./hash.ts";
import type { Json } from "./json.ts";

/** The RFC 8785 form of a JSON value. */
export function canonicalJson(value: Json): string {
  const text = (canonicalize as unknown as (value: Json) => string | undefined)(value);
  assert(text !== undefined, "a JSON value has a canonical form");
  return text;
}

/** Hex SHA-256 of the RFC 8785 form, which does not depend on the order of keys. */
export function contentHash(value: Json): string {
  return sha256(canonicalJson(value));
}
