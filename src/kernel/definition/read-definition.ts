import { contentHash } from "../../std/canonical-json.ts";
import type { Json } from "../../std/json.ts";
import { type Rejection, reject } from "../../std/rejection.ts";
import type { Definition } from "./definition.ts";
import { parseStored } from "./parse-definition.ts";

/**
 * Parses a stored definition. Returns a rejection if this version of Rondo cannot read it, and null if its text does not match its
 * hash.
 */
export function readDefinition(body: string, hash: string): Definition | Rejection | null {
  let data: Json;
  try {
    data = JSON.parse(body) as Json;
  } catch {
    return null;
  }
  return contentHash(data) === hash ? parseStored(data) : null;
}

/** Parses a stored definition; returns a rejection if it is damaged. */
export function usableDefinition(found: {
  readonly hash: string;
  readonly body: string;
}): Definition | Rejection {
  const { hash, body } = found;
  const damaged = `the stored definition ${hash.slice(0, 12)} is damaged: its text does not match its hash`;
  return readDefinition(body, hash) ?? reject("not_ready", damaged, { hint: "register the workflow again" });
}
