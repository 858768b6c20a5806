/**
 * Standard Schema (standardschema.dev), as far as it is used here: any library that implements it gives inputs and
 * signals their types, their checks and, where it can, their JSON Schema.
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
    /** The extension Standard JSON Schema. */
    readonly jsonSchema?: { readonly input: (options: { readonly target: string }) => unknown } | undefined;
  };
}

/** What a value must be to pass a schema. */
export type SchemaInput<Schema extends StandardSchema> = NonNullable<Schema["~standard"]["types"]>["input"];

/** What a schema makes of a value. */
export type SchemaOutput<Schema extends StandardSchema> = NonNullable<Schema["~standard"]["types"]>["output"];

/** A value that passed, or what is wrong with it. */
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

/** What the schema makes of a value, or a rejection that names the first issue's path; a promise only if the schema is async. */
export function parseWithSchema(
  schema: StandardSchema,
  value: unknown,
  what: string,
): { readonly value: unknown } | Rejection | Promise<{ readonly value: unknown } | Rejection> {
  const result = schema["~standard"].validate(value);
  return isThenable(result) ? result.then((settled) => verdict(settled, what)) : verdict(result, what);
}

/** Why a schema refuses a value; null: it does not. */
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

/** The JSON Schema of what a schema accepts, where its library gives one. */
export function jsonSchemaOf(schema: StandardSchema): Json | undefined {
  try {
    const text = JSON.stringify(schema["~standard"].jsonSchema?.input({ target: "draft-2020-12" }));
    return text === undefined ? undefined : (JSON.parse(text) as Json);
  } catch {
    // Libraries throw for what JSON Schema cannot say, such as dates; the schema itself still checks every value.
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
