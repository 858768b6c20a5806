// Checks answers against the server's own OpenAPI document: the route and the status must be in it, and a JSON body must
// fit its schema.
import { Validator } from "@cfworker/json-schema";

export interface Operation {
  readonly operationId: string;
  readonly summary: string;
  readonly description?: string;
  readonly tags: readonly string[];
  readonly security: readonly Readonly<Record<string, unknown>>[];
  readonly parameters?: readonly { readonly name: string; readonly in: string; readonly schema: object }[];
  readonly requestBody?: { readonly content: Readonly<Record<string, { readonly schema: object }>> };
  readonly responses: Readonly<
    Record<string, { readonly description: string; readonly content?: Record<string, { schema: object }> }>
  >;
}

export interface OpenApi {
  readonly openapi: string;
  readonly info: { readonly title: string; readonly version: string; readonly description: string };
  readonly servers: readonly { readonly url: string }[];
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>;
  readonly components: {
    readonly schemas: Readonly<Record<string, object>>;
    readonly securitySchemes: Readonly<Record<string, object>>;
  };
}

/** Every operation of a document. */
export function operationsOf(document: OpenApi): { method: string; path: string; operation: Operation }[] {
  return Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({ method, path, operation })),
  );
}

/** What is wrong with an answer; null: nothing. Paths that the document does not have are not looked at. */
export function checkAnswer(
  document: OpenApi,
  asked: { readonly method: string; readonly path: string },
  got: { readonly status: number; readonly type: string | null; readonly body: unknown },
): string | null {
  const path = asked.path.split("?")[0] as string;
  const pattern = Object.keys(document.paths)
    .filter((one) => fits(one, path))
    // A path without parameters goes before one with.
    .sort((a, b) => a.split("{").length - b.split("{").length)[0];
  const operation = pattern === undefined ? undefined : document.paths[pattern]?.[asked.method.toLowerCase()];
  if (operation === undefined) return null;
  const at = `${asked.method} ${pattern} ${got.status}`;
  const answer = operation.responses[String(got.status)];
  if (answer === undefined) return `${at}: the document does not have this status`;
  if (got.type === null) return null;
  const type = got.type.split(";")[0] as string;
  const content = answer.content?.[type];
  if (content === undefined) return `${at}: the document does not have the type ${type}`;
  if (!type.endsWith("json")) return null;
  const schema = withoutExamples({ ...content.schema, components: document.components });
  const validator = new Validator(schema as never, "2020-12");
  const { valid, errors } = validator.validate(got.body);
  return valid ? null : `${at}: ${JSON.stringify(errors.at(-1))}`;
}

function fits(pattern: string, path: string): boolean {
  const [wanted, given] = [pattern.split("/"), path.split("/")];
  return (
    wanted.length === given.length && wanted.every((part, i) => part.startsWith("{") || part === given[i])
  );
}

/** The validator takes an example for a schema. */
function withoutExamples(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(withoutExamples);
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(
    Object.entries(value).flatMap(([key, one]) => (key === "example" ? [] : [[key, withoutExamples(one)]])),
  );
}
