/** Keys and identities of tasks, found by the JSON Pointers (RFC 6901) of a definition. */
import type { Json } from "../../std/json.ts";
import type { HandlerDefinition } from "./definition.ts";
import { NAME_RULE, whyNoName } from "./names.ts";

/** Tasks as JSON texts with their keys and identities. */
export interface Items {
  readonly tasks: readonly string[];
  readonly keys: readonly string[] | null;
  readonly identities: readonly string[] | null;
}

/** The value at a JSON Pointer; undefined if there is none. */
export function pointedAt(value: unknown, pointer: string): unknown {
  let found: unknown = value;
  for (const part of pointer.split("/").slice(1)) {
    const key = part.replaceAll("~1", "/").replaceAll("~0", "~");
    if (typeof found !== "object" || found === null || !Object.hasOwn(found, key)) return undefined;
    found = (found as Record<string, unknown>)[key];
  }
  return found;
}

/** Converts a value to a name; null if it is not a text, number or boolean. */
export function nameOf(value: unknown): string | null {
  if (typeof value === "string") return value;
  return typeof value === "number" || typeof value === "boolean" ? String(value) : null;
}

/** Explains why a value is not a name: `source` produced it, `what` is key or identity. */
export function noName(value: unknown, what: string, source: string): string {
  const shown = value === undefined ? "nothing" : value === null ? "null" : `a value of type ${typeof value}`;
  return `the ${what} of a task must be a text or a number, but ${source} gives ${shown}`;
}

/** The names of tasks (JSON texts) at a pointer, or why one of them has none. */
export function namesOf(tasks: readonly string[], what: string, pointer: string): string[] | { why: string } {
  const names: string[] = [];
  for (const task of tasks) {
    const value = pointedAt(JSON.parse(task), pointer);
    const name = nameOf(value);
    if (name === null) return { why: noName(value, what, `"${pointer}"`) };
    names.push(name);
  }
  return names;
}

/** The keys of tasks at a pointer, or why one of them cannot be a key. */
export function keysOf(tasks: readonly string[], pointer: string): string[] | { why: string } {
  const keys = namesOf(tasks, "key", pointer);
  if (!Array.isArray(keys)) return keys;
  for (const key of keys) {
    const why = whyNoKey(key);
    if (why !== null) return { why };
  }
  return keys;
}

/** Why a text is not a valid key; null if it is one. */
export function whyNoKey(key: string): string | null {
  const why = whyNoName(key);
  return why === null ? null : `the key of a task ${why} (a key has ${NAME_RULE})`;
}

/** The tasks that a definition lists, without duplicates by identity. */
export function listedItems(listed: readonly Json[], { key, identity }: HandlerDefinition): Items {
  const tasks = listed.map((task) => JSON.stringify(task));
  const keys = typeof key === "string" ? namesOf(tasks, "key", key) : null;
  const identities = typeof identity === "string" ? namesOf(tasks, "identity", identity) : null;
  // The parser refuses tasks without a name, but stored definitions of older versions may have them.
  return uniqueItems({ tasks, keys: listOrNull(keys), identities: listOrNull(identities) }, () => false);
}

/** The items without duplicates and without known identities; all of them if they have no identities. */
export function uniqueItems(items: Items, isKnown: (identity: string) => boolean): Items {
  const { tasks, keys, identities } = items;
  if (identities === null) return items;
  const seen = new Set<string>();
  const kept: number[] = [];
  identities.forEach((identity, i) => {
    if (seen.has(identity) || isKnown(identity)) return;
    seen.add(identity);
    kept.push(i);
  });
  const pick = (values: readonly string[]): string[] => kept.map((i) => values[i] as string);
  return { tasks: pick(tasks), keys: keys === null ? null : pick(keys), identities: pick(identities) };
}

function listOrNull(names: string[] | { why: string } | null): string[] | null {
  return Array.isArray(names) ? names : null;
}
