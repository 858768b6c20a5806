/** Checks the types of keywords in a JSON Schema, since the validator ignores what it does not understand. */
import { isObject } from "../../std/decode.ts";
import type { Json } from "../../std/json.ts";

const TYPES = ["null", "boolean", "object", "array", "number", "integer", "string"];
/** Keywords of JSON Schema that contain schemas: by name, in a list, or directly. */
export const MAPS: readonly string[] = [
  "properties",
  "patternProperties",
  "dependentSchemas",
  "$defs",
  "definitions",
];
export const LISTS: readonly string[] = ["allOf", "anyOf", "oneOf", "prefixItems", "items"];
export const SINGLE: readonly string[] = [
  "items",
  "contains",
  "additionalProperties",
  "propertyNames",
  "not",
  "if",
  "then",
  "else",
];
const NUMBERS = ["minimum", "maximum", "multipleOf"];
const COUNTS = ["minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"];

/** The first error in a schema, with its path; null if there is none. */
export function wrongShape(schema: Json, at: string): string | null {
  if (typeof schema === "boolean") return null;
  if (!isObject(schema)) return `${at}: a JSON Schema is an object`;
  for (const [key, value] of Object.entries(schema)) {
    const why = wrongKeyword(key, value);
    if (why !== null) return `${at}.${key}: ${why}`;
    for (const [name, part] of partsOf(key, value)) {
      const wrong = wrongShape(part, `${at}.${key}${name}`);
      if (wrong !== null) return wrong;
    }
  }
  return null;
}

function wrongKeyword(key: string, value: Json): string | null {
  if (key === "type") return isType(value) ? null : `must be of ${TYPES.join(", ")}, or a list of them`;
  if (key === "required") return isTexts(value) ? null : "must be a list of names";
  if (key === "enum") return Array.isArray(value) ? null : "must be a list";
  if (key === "pattern") return isPattern(value) ? null : "is not a regular expression";
  if (NUMBERS.includes(key)) return typeof value === "number" ? null : "must be a number";
  if (COUNTS.includes(key)) return isCount(value) ? null : "must be a whole number from 0";
  if (MAPS.includes(key)) return wrongMap(key, value);
  if (Array.isArray(value) && LISTS.includes(key)) return null;
  if (SINGLE.includes(key)) return null;
  return LISTS.includes(key) ? "must be a list" : null;
}

function wrongMap(key: string, value: Json): string | null {
  if (!isObject(value)) return "must be an object";
  const bad = key === "patternProperties" ? Object.keys(value).find((name) => !isPattern(name)) : undefined;
  return bad === undefined ? null : `"${bad.slice(0, 60)}" is not a regular expression`;
}

/** The schemas in a keyword, with their paths. */
function partsOf(key: string, value: Json): [string, Json][] {
  if (Array.isArray(value))
    return LISTS.includes(key) ? value.map((one, i): [string, Json] => [`[${i}]`, one]) : [];
  if (MAPS.includes(key))
    return Object.entries(value as object).map(([name, one]) => [`.${name}`, one as Json]);
  return SINGLE.includes(key) ? [["", value]] : [];
}

function isType(value: Json): boolean {
  const list = Array.isArray(value) ? value : [value];
  return list.length > 0 && list.every((one) => typeof one === "string" && TYPES.includes(one));
}

function isTexts(value: Json): boolean {
  return Array.isArray(value) && value.every((one) => typeof one === "string");
}

function isCount(value: Json): boolean {
  return Number.isInteger(value) && (value as number) >= 0;
}

/** Whether the validator can compile the regular expression. */
function isPattern(value: Json): boolean {
  if (typeof value !== "string") return false;
  try {
    return new RegExp(value, "u") instanceof RegExp;
  } catch {
    return false;
  }
}
