/**
 * References in the data of a command: `${steps[0].cmd_result.a.b}`, `${input.a}`, `${task.a}`. A text that consists of one reference
 * is replaced by the value; in a longer text, the value is inserted as text. This file parses references, plans which parts of
 * results are kept for them, and replaces them.
 */
import type { Json } from "../../std/json.ts";
import { wrong } from "../definition/parse-primitive.ts";

export interface Reference {
  readonly from: "steps" | "input" | "task";
  /** The number of the command whose result the reference names; 0 for other references. */
  readonly step: number;
  readonly path: readonly string[];
  /** The text of the reference in the command, without `${` and `}`. */
  readonly text: string;
}

/** The value at a path; null if there is none. */
export type Found = { readonly value: Json } | null;

/** Matches references. `$${...}` is an escape that stands for the text `${...}`. */
const REFERENCE = /(\$?)\$\{([^{}]*)\}/g;
const STEPS = /^steps\[(0|[1-9]\d{0,3})\]\.cmd_result(.*)$/;
const OTHER = /^(input|task)(.*)$/;
const PART = /\.([A-Za-z_][A-Za-z0-9_-]*)|\[(0|[1-9]\d{0,6})\]|\["((?:[^"\\]|\\.)*)"\]/y;

/** Returns all references in `data`, each once. Throws if a `${...}` is not a valid reference. */
export function parseReferences(data: Json, path: string): readonly Reference[] {
  const found = new Map<string, Reference>();
  for (const { text, at } of textsWithReferences(data, path)) {
    for (const [, escape, inner = ""] of text.matchAll(REFERENCE)) {
      if (escape === "$") continue;
      const reference = parseReference(inner);
      if (reference === null)
        throw wrong(
          at,
          `"\${${inner.slice(0, 60)}}" is not a reference`,
          "write ${steps[0].cmd_result.a}, ${input.a} or ${task.a}; $${...} is the text itself",
        );
      found.set(inner, reference);
    }
  }
  return [...found.values()];
}

/** Returns a copy of `data` with its references replaced, or the first reference that has no value. */
export function resolveReferences(
  data: Json,
  find: (reference: Reference) => Found,
): { readonly value: Json } | { readonly missing: Reference } {
  const missing: Reference[] = [];
  const value = replace(data, (inner) => {
    const reference = parseReference(inner);
    // Text that is no valid reference stays as it is. The parser refuses it now, but definitions of older versions may contain it.
    if (reference === null) return { value: `\${${inner}}` };
    const found = find(reference);
    if (found === null) missing.push(reference);
    return found ?? { value: null };
  });
  return missing[0] === undefined ? { value } : { missing: missing[0] };
}

/** Returns the value at the end of a path of own members. */
export function follow(value: Json, path: readonly string[]): Found {
  let at: Json = value;
  for (const part of path) {
    // Inherited properties and the length of a list do not count as members.
    if (typeof at !== "object" || at === null || !Object.prototype.propertyIsEnumerable.call(at, part))
      return null;
    at = (at as Record<string, Json>)[part] as Json;
  }
  return { value: at };
}

function parseReference(inner: string): Reference | null {
  const steps = STEPS.exec(inner);
  const other = steps === null ? OTHER.exec(inner) : null;
  const path = parsePath(steps?.[2] ?? other?.[2] ?? "");
  if (path === null) return null;
  if (steps !== null) return { from: "steps", step: Number(steps[1]), path, text: inner };
  return other === null ? null : { from: other[1] as "input" | "task", step: 0, path, text: inner };
}

function parsePath(text: string): readonly string[] | null {
  const path: string[] = [];
  PART.lastIndex = 0;
  while (PART.lastIndex < text.length) {
    const part = PART.exec(text);
    if (part === null) return null;
    const quoted = part[3];
    path.push(part[1] ?? part[2] ?? unquote(quoted ?? ""));
  }
  return path;
}

function unquote(text: string): string {
  return text.replaceAll(/\\(.)/g, "$1");
}

interface FoundText {
  readonly text: string;
  readonly at: string;
}

/** Returns the texts in `data` that may contain references, with their paths. Most data has none. */
function textsWithReferences(data: Json, at: string, into: FoundText[] = []): readonly FoundText[] {
  if (typeof data === "string") {
    if (data.includes("${")) into.push({ text: data, at });
  } else if (typeof data === "object" && data !== null)
    for (const key of Object.keys(data)) {
      const member = (data as Readonly<Record<string, Json>>)[key] as Json;
      if (typeof member === "object" || typeof member === "string")
        textsWithReferences(member, `${at}.${key}`, into);
    }
  return into;
}

function replace(data: Json, find: (inner: string) => { readonly value: Json }): Json {
  if (typeof data === "string") return replaceText(data, find);
  if (typeof data !== "object" || data === null) return data;
  if (Array.isArray(data)) return data.map((member: Json) => replace(member, find));
  return Object.fromEntries(Object.entries(data).map(([key, member]) => [key, replace(member, find)]));
}

function replaceText(text: string, find: (inner: string) => { readonly value: Json }): Json {
  const whole = /^\$\{([^{}]*)\}$/.exec(text);
  if (whole !== null) return find(whole[1] as string).value;
  return text.replaceAll(REFERENCE, (_, escape: string, inner: string) => {
    if (escape === "$") return `\${${inner}}`;
    const { value } = find(inner);
    return typeof value === "string" ? value : JSON.stringify(value);
  });
}

/**
 * The parts of results that are kept for references. No part lies inside another, so together they are no larger than the
 * result, no matter how many references there are.
 */
export interface Referred {
  /** The references whose values are kept, by the number of the command that they refer to. */
  readonly byStep: ReadonlyMap<number, readonly Reference[]>;
  /** Which kept part of a result contains the value of a reference. The key is the text of the reference. */
  readonly keptFor: ReadonlyMap<string, Reference>;
}

/** A place in a result. `kept` is the reference for which the whole value at this place is kept; null if there is none. */
interface Place {
  kept: Reference | null;
  readonly members: Map<string, Place>;
}

/** Plans which parts of the results of earlier commands must be kept, so that these references can be filled in later. */
export function planReferred(references: readonly Reference[]): Referred {
  const byStep = new Map<number, Reference[]>();
  const keptFor = new Map<string, Reference>();
  const results = new Map<number, Place>();
  const outerFirst = references
    .filter(({ from }) => from === "steps")
    .sort((one, other) => one.path.length - other.path.length);
  for (const reference of outerFirst) {
    const { step, path, text } = reference;
    const result = results.get(step) ?? place();
    results.set(step, result);
    const kept = keep(result, path, reference);
    keptFor.set(text, kept);
    if (kept !== reference) continue;
    const parts = byStep.get(step) ?? [];
    parts.push(reference);
    byStep.set(step, parts);
  }
  return { byStep, keptFor };
}

/** Returns the kept reference whose value contains this path. If there is none yet, the path itself is kept. */
function keep(result: Place, path: readonly string[], reference: Reference): Reference {
  let at = result;
  for (const part of path) {
    if (at.kept !== null) return at.kept;
    const next = at.members.get(part) ?? place();
    at.members.set(part, next);
    at = next;
  }
  at.kept ??= reference;
  return at.kept;
}

function place(): Place {
  return { kept: null, members: new Map() };
}
