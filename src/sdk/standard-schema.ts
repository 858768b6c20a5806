/**
 * The part of Standard Schema (standardschema.dev) that Rondo uses. Any library that implements it gives inputs and signals
 * their types, checks and, if it can, a JSON Schema.
 */
import type { Json } from "../std/json.ts";
import { isRejection, type Rejection, reject } from "../std/rejection.ts";
import { isThenable } from "../std/thenable.ts";

/** A schema of any library that implements Standard Schema. */
export interface StandardSchema<Input = unknown, Output = Input> {
  /** The properties that the specification defines. */
  readonly "~standard": {
    readonly version: 1;
    readonly vendor: string;
    readonly validate: (value: unknown) => SchemaResult<Output> | Promise<SchemaResult<Output>>;
    readonly types?: { readonly input: Input; readonly output: Output } | undefined;
    /** The conversion to JSON Schema, if the library implements the extension Standard JSON Schema. */
    readonly jsonSchema?: { readonly input: (options: { readonly target: string }) => unknown } | undefined;
  };
}

/** The type of values that a schema accepts. */
export type SchemaInput<Schema extends StandardSchema> = NonNullable<Schema["~standard"]["types"]>["input"];

/** The type of a schema's output. */
export type SchemaOutput<Schema extends StandardSchema> = NonNullable<Schema["~standard"]["types"]>["output"];

/** The result of a validation: the valid value, or its issues. */
export type SchemaResult<Output> =
  | { readonly value: Output; readonly issues?: undefined }
  | { readonly issues: readonly SchemaIssue[] };

interface SchemaIssue {
  readonly message: string;
  readonly path?: readonly (PropertyKey | { readonly key: PropertyKey })[] | undefined;
}

/** True for an object that implements Standard Schema. */
export function isStandardSchema(value: unknown): value is StandardSchema {
  if ((typeof value !== "object" && typeof value !== "function") || value === null) return false;
  const standard = (value as { "~standard"?: { validate?: unknown } })["~standard"];
  return typeof standard?.validate === "function";
}

/**
 * Returns the schema's output for a value, or a rejection with the path of the first issue. Returns a promise only if the
 * schema is async.
 */
export function parseWithSchema(
  schema: StandardSchema,
  value: unknown,
  what: string,
): { readonly value: unknown } | Rejection | Promise<{ readonly value: unknown } | Rejection> {
  const result = schema["~standard"].validate(value);
  return isThenable(result) ? result.then((settled) => verdict(settled, what)) : verdict(result, what);
}

/** Returns why a schema refuses a value; null if the schema accepts it. */
export function refusalBy(
  schema: StandardSchema,
  value: unknown,
  what: string,
): Rejection | null | Promise<Rejection | null> {
  const parsed = parseWithSchema(schema, value, what);
  const refusal = (settled: { readonly value: unknown } | Rejection) =>
    isRejection(settled) ? settled : null;
  return isThenable(parsed) ? parsed.then(refusal) : refusal(parsed);
}

/** The JSON Schema of the values that a schema accepts, if its library provides one. */
export function jsonSchemaOf(schema: StandardSchema): Json | undefined {
  try {
    const text = JSON.stringify(schema["~standard"].jsonSchema?.input({ target: "draft-2020-12" }));
    return text === undefined ? undefined : (JSON.parse(text) as Json);
  } catch {
    // Libraries throw for values that JSON Schema cannot describe, such as dates. The schema itself still checks every value.
    return undefined;
  }
}

function verdict(result: SchemaResult<unknown>, what: string): { readonly value: unknown } | Rejection {
  if (result.issues === undefined) return { value: result.value };
  const [first, ...others] = result.issues;
  const path = what + (first?.path ?? []).map(showSegment).join("");
  const more = others.length === 0 ? "" : `, and ${others.length} more`;
  return reject("invalid_input", `${path}: ${first?.message ?? "is not valid"}${more}`, { path });
}

function showSegment(segment: PropertyKey | { readonly key: PropertyKey }): string {
  const key = typeof segment === "object" ? segment.key : segment;
  return typeof key === "number" ? `[${key}]` : `.${String(key)}`;
}
