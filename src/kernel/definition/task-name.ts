/** Keys and identities of tasks, found by the JSON Pointers (RFC 6901) of a definition. */
import type { Json } from "../../std/json.ts";
import { type HandlerDefinition, LIMITS } from "./definition.ts";
import { NAME_RULE, whyNoName } from "./names.ts";

/** Tasks as JSON texts, with their keys, their identities and the identities of the tasks for which they wait. */
export interface Items {
  readonly tasks: readonly string[];
  readonly keys: readonly string[] | null;
  readonly identities: readonly string[] | null;
  /** For each task, the identities of the tasks for which it waits. Missing if no task of the handler waits for another task. */
  readonly afters?: Afters | null;
}

/** For each task, the identities of the tasks for which it waits. */
export type Afters = readonly (readonly string[])[];

/** Returns the value at a JSON Pointer; undefined if there is none. */
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

/** Returns the reason why a value is not a name. `source` says what produced the value; `what` is "key" or "identity". */
export function noName(value: unknown, what: string, source: string): string {
  const shown = value === undefined ? "nothing" : value === null ? "null" : `a value of type ${typeof value}`;
  return `the ${what} of a task must be a text or a number, but ${source} gives ${shown}`;
}

/** Returns the names of tasks, which are found in their JSON texts by a pointer; or the reason why a task has no name. */
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

/**
 * Returns the identities of the tasks for which a task waits, from the list at a pointer into the task; or the reason why the list is
 * invalid. Without a value at the pointer, the task waits for no other.
 */
export function waitedFor(task: unknown, pointer: string): string[] | { why: string } {
  return identitiesIn(pointedAt(task, pointer) ?? [], `"${pointer}"`);
}

/**
 * Returns the identities in a list, each once, or the reason why the value is not a list of identities. `source` says what produced
 * the value.
 */
export function identitiesIn(list: unknown, source: string): string[] | { why: string } {
  const isList = typeof list === "object" && list !== null && Symbol.iterator in list;
  if (!isList)
    return {
      why: `the tasks that a task waits for must be a list of identities, but ${source} gives a value of type ${typeof list}`,
    };
  const names = new Set<string>();
  let chars = 0;
  for (const value of list as Iterable<unknown>) {
    const name = nameOf(value);
    if (name === null) return { why: noName(value, "identity", source) };
    names.add(name);
    chars += name.length;
    if (chars > LIMITS.afterChars)
      return { why: `the names that a task waits for have more than ${LIMITS.afterChars} characters` };
  }
  return [...names];
}

/** Returns, for each task, the identities at a pointer; or the reason why a task has an invalid list. */
function aftersOf(tasks: readonly string[], pointer: string): string[][] | { why: string } {
  const afters: string[][] = [];
  for (const task of tasks) {
    const names = waitedFor(JSON.parse(task), pointer);
    if ("why" in names) return names;
    afters.push(names);
  }
  return afters;
}

/**
 * Adds the keys, the identities and the awaited tasks that the pointers of a definition find in the tasks. Returns `why` if one is
 * missing or invalid.
 */
export function nameItems(
  { key, identity, after }: HandlerDefinition,
  { tasks, ...given }: Items,
): Items | { why: string } {
  const keys = given.keys === null && typeof key === "string" ? keysOf(tasks, key) : given.keys;
  if (keys !== null && "why" in keys) return keys;
  const isPointed = given.identities === null && typeof identity === "string";
  const identities = isPointed ? namesOf(tasks, "identity", identity) : given.identities;
  if (identities !== null && "why" in identities) return identities;
  if (after === undefined) return { tasks, keys, identities };
  if (identities === null) return { why: "a task needs an identity if tasks can wait for others" };
  const afters = given.afters ?? (typeof after === "string" ? aftersOf(tasks, after) : null);
  if (afters === null)
    return { why: "the definition has `after: true`, but the tasks come without `afters`" };
  return "why" in afters ? afters : { tasks, keys, identities, afters };
}

/** Returns why lists of keys, identities or awaited tasks do not match their tasks; null if each list has one entry for each task. */
export function whyUneven({ tasks, keys, identities, afters }: Items): string | null {
  const isEven = [keys, identities, afters].every((list) => (list?.length ?? tasks.length) === tasks.length);
  return isEven ? null : "the lists of keys, identities and awaited tasks must have one entry for each task";
}

/** Returns the keys of tasks, found by a pointer; or the reason why one of them cannot be a key. */
export function keysOf(tasks: readonly string[], pointer: string): string[] | { why: string } {
  const keys = namesOf(tasks, "key", pointer);
  if (!Array.isArray(keys)) return keys;
  for (const key of keys) {
    const why = whyNoKey(key);
    if (why !== null) return { why };
  }
  return keys;
}

/** Returns why a text is not a valid key; null if it is valid. */
export function whyNoKey(key: string): string | null {
  const why = whyNoName(key);
  return why === null ? null : `the key of a task ${why} (a key has ${NAME_RULE})`;
}

/** Returns the tasks that a definition lists, without those whose identity occurs before. */
export function listedItems(listed: readonly Json[], { key, identity, after }: HandlerDefinition): Items {
  const tasks = listed.map((task) => JSON.stringify(task));
  const keys = typeof key === "string" ? namesOf(tasks, "key", key) : null;
  const identities = typeof identity === "string" ? namesOf(tasks, "identity", identity) : null;
  const afters = typeof after === "string" ? aftersOf(tasks, after) : null;
  // The parser refuses tasks without a name now, but stored definitions of older versions may contain some.
  const items = { tasks, keys: listOrNull(keys), identities: listOrNull(identities) };
  return uniqueItems(afters === null ? items : { ...items, afters: listOrNull(afters) }, () => false);
}

/** Returns the items whose identities are neither known nor repeated in the list. Without identities, returns all items. */
export function uniqueItems(items: Items, isKnown: (identity: string) => boolean): Items {
  const { tasks, keys, identities, afters } = items;
  if (identities === null) return items;
  const seen = new Set<string>();
  const kept: number[] = [];
  identities.forEach((identity, i) => {
    if (seen.has(identity) || isKnown(identity)) return;
    seen.add(identity);
    kept.push(i);
  });
  if (kept.length === tasks.length) return items;
  const pick = <T>(values: readonly T[]): T[] => kept.map((i) => values[i] as T);
  const picked = {
    tasks: pick(tasks),
    keys: keys === null ? null : pick(keys),
    identities: pick(identities),
  };
  return afters === undefined || afters === null ? picked : { ...picked, afters: pick(afters) };
}

function listOrNull<T>(names: T[] | { why: string } | null): T[] | null {
  return Array.isArray(names) ? names : null;
}
