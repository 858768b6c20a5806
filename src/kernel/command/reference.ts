/**
 * References in the data of a command: `${steps[0].cmd_result.a.b}`, `${input.a}`, `${task.a}`. A text that is only a
 * reference stands for the value; inside a longer text the value is inserted as text. Pure: what is referred to comes
 * in.
 */
import type { Json } from "../../std/json.ts";
import { Invalid } from "../definition/parse-primitive.ts";

/** What a reference points into, and the path there. */
export interface Reference {
  readonly from: "steps" | "input" | "task";
  /** The step whose result is meant; 0 where none is. */
  readonly step: number;
  readonly path: readonly string[];
  /** As it is written, without `${` and `}`. */
  readonly text: string;
}

/** A value, or nothing where the path leads nowhere. */
export type Found = { readonly value: Json } | null;

/** A second `$` before it: the text itself is meant. */
const REFERENCE = /(\$?)\$\{([^{}]*)\}/g;
const STEPS = /^steps\[(0|[1-9]\d{0,3})\]\.cmd_result(.*)$/;
const OTHER = /^(input|task)(.*)$/;
const PART = /\.([A-Za-z_][A-Za-z0-9_-]*)|\[(0|[1-9]\d{0,6})\]|\["((?:[^"\\]|\\.)*)"\]/y;

/** All references in `data`, each once; throws `Invalid` at what looks like one and is none. */
export function parseReferences(data: Json, path: string): readonly Reference[] {
  const found = new Map<string, Reference>();
  for (const { text, at } of texts(data, path)) {
    for (const [, escape, inner = ""] of text.matchAll(REFERENCE)) {
      if (escape === "$") continue;
      const reference = parseReference(inner);
      if (reference === null)
        throw new Invalid(
          at,
          `"\${${inner.slice(0, 60)}}" is not a reference`,
          "write ${steps[0].cmd_result.a}, ${input.a} or ${task.a}; $${...} is the text itself",
        );
      found.set(inner, reference);
    }
  }
  return [...found.values()];
}

/** `data` with its references replaced, or the first one that leads nowhere. */
export function resolveReferences(
  data: Json,
  find: (reference: Reference) => Found,
): { readonly value: Json } | { readonly missing: Reference } {
  const missing: Reference[] = [];
  const value = replace(data, (inner) => {
    const reference = parseReference(inner);
    // What is no reference was refused when the definition was.
    if (reference === null) return { value: `\${${inner}}` };
    const found = find(reference);
    if (found === null) missing.push(reference);
    return found ?? { value: null };
  });
  return missing[0] === undefined ? { value } : { missing: missing[0] };
}

/** What is at the end of the path: own members only. */
export function follow(value: Json, path: readonly string[]): Found {
  let at: Json = value;
  for (const part of path) {
    // Neither what is inherited nor the length of a list is a member.
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

function* texts(data: Json, at: string): Generator<{ text: string; at: string }> {
  if (typeof data === "string") yield { text: data, at };
  else if (typeof data === "object" && data !== null)
    for (const [key, member] of Object.entries(data)) yield* texts(member, `${at}.${key}`);
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
