/** JSON Schemas of definitions: validates schemas, and values against them. */
import { type OutputUnit, type SchemaDraft, Validator } from "@cfworker/json-schema";
import type { Json } from "../../std/json.ts";
import { type Rejection, reject } from "../../std/rejection.ts";
import { LISTS, MAPS, SINGLE, wrongShape } from "./schema-shape.ts";

/** Checks values against one schema. */
export class SchemaCheck {
  readonly #validator: Validator;

  private constructor(validator: Validator) {
    this.#validator = validator;
  }

  /** Compiles a schema of a definition, or returns a rejection; `at` is the path of the schema. */
  static of(schema: Json, at: string): SchemaCheck | Rejection {
    const wrong = wrongShape(schema, at);
    if (wrong !== null) return reject("invalid_definition", wrong, { path: at });
    try {
      const check = new SchemaCheck(new Validator(plain(schema) as never, draftOf(schema)));
      // The validator finds a dangling reference only when it follows the reference.
      check.#validator.validate(null);
      return check;
    } catch (thrown) {
      return reject("invalid_definition", `${at}: not a JSON Schema: ${messageOf(thrown)}`, { path: at });
    }
  }

  /** Returns why a value does not match the schema; null if it does. `what` names the value. */
  check(value: Json, what: string): Rejection | null {
    let errors: readonly OutputUnit[];
    try {
      const result = this.#validator.validate(value);
      if (result.valid) return null;
      ({ errors } = result);
    } catch (thrown) {
      return reject("invalid_input", `${what} cannot be checked by its schema: ${messageOf(thrown)}`, {
        path: what,
      });
    }
    const error = mostSpecific(errors);
    const path = what + pathText(error?.instanceLocation ?? "#");
    return reject("invalid_input", `${path}: ${error?.error ?? "does not fit its schema"}`, {
      path,
      hint: "see the workflow's definition for what is expected",
    });
  }
}

/**
 * Returns the error at the deepest place in the value. The validator lists errors of inner schemas together with those of the outer ones.
 */
function mostSpecific(errors: readonly OutputUnit[]): OutputUnit | undefined {
  let best: OutputUnit | undefined;
  for (const error of errors) if (best === undefined || depthOf(error) >= depthOf(best)) best = error;
  return best;
}

function depthOf({ instanceLocation }: OutputUnit): number {
  return instanceLocation.split("/").length;
}

/** Writes the location `#/a/0` as the text `.a[0]`. */
function pathText(location: string): string {
  return location
    .split("/")
    .slice(1)
    .map((part) => decodeURIComponent(part).replaceAll("~1", "/").replaceAll("~0", "~"))
    .map((part) => (/^\d+$/.test(part) ? `[${part}]` : `.${part}`))
    .join("")
    .slice(0, 200);
}

/**
 * Copies a schema without its examples, which the validator would take for schemas. The copy also protects the original from
 * changes by the validator.
 */
function plain(schema: Json): Json {
  if (typeof schema !== "object" || schema === null || Array.isArray(schema)) return schema;
  return Object.fromEntries(
    Object.entries(schema).flatMap(([key, value]: [string, Json]): [string, Json][] => {
      if (key === "example" || key === "examples") return [];
      if (Array.isArray(value) && LISTS.includes(key)) return [[key, value.map(plain)]];
      if (typeof value !== "object" || value === null) return [[key, value]];
      if (MAPS.includes(key))
        return [[key, Object.fromEntries(Object.entries(value).map(([name, one]) => [name, plain(one)]))]];
      return [[key, SINGLE.includes(key) ? plain(value) : structuredClone(value)]];
    }),
  );
}

function draftOf(schema: Json): SchemaDraft {
  const named =
    typeof schema === "object" && schema !== null ? (schema as { $schema?: unknown }).$schema : undefined;
  if (typeof named !== "string") return "2020-12";
  if (named.includes("draft-04")) return "4";
  if (named.includes("draft-07") || named.includes("draft-06")) return "7";
  return named.includes("2019-09") ? "2019-09" : "2020-12";
}

/** The first line of the validator's message, without the path that the validator adds. */
function messageOf(thrown: unknown): string {
  const text = thrown instanceof Error ? thrown.message : String(thrown);
  return (text.split(/\n| {2}Absolute URI/)[0] as string).slice(0, 200);
}
