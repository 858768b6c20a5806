/** Parameters that many routes share: pages, numbers in queries, names. */
import { z } from "@hono/zod-openapi";
import { NAME_PATTERN, PHASE_PATTERN } from "../../kernel/definition/definition.ts";
import { NAME_BYTES_MAX, NAME_RULE, whyNoExecutionId, whyNoName } from "../../kernel/definition/names.ts";
import { REFERENCE_PATTERN } from "../../kernel/definition/version-name.ts";

const LIMIT_MAX = 1_000;
/** A page of a list ends early at about this many characters, so that no answer is much larger. */
export const PAGE_CHARS = 4_194_304;

/** Makes the schema of a whole number in a query. */
export function integer(min: number, max: number, description: string) {
  return z
    .string()
    .regex(/^\d{1,15}$/, "must be a whole number")
    .transform(Number)
    .pipe(z.number().min(min, `must be at least ${min}`).max(max, `must be at most ${max}`))
    .openapi({ type: "integer", minimum: min, maximum: max, description, param: { description } });
}

/** The number of items on a page. */
export function limit(fallback = 50) {
  return integer(1, LIMIT_MAX, `items on a page, ${fallback} by default`).default(fallback);
}

/** The cursor at which a page begins. */
export const cursor = z.string().min(1).max(200).optional().describe("the `next` value of the previous page");

/** A boolean in a query. */
export function flag(description: string) {
  return z
    .enum(["true", "false"])
    .optional()
    .transform((value) => value === "true")
    .openapi({ type: "string", enum: ["true", "false"], description });
}

/** The name of a phase; compensating phases are allowed too. */
export const phaseName = z
  .string()
  .regex(PHASE_PATTERN, "must be a letter, then up to 39 letters, digits, _ or -")
  .openapi({ example: "resize" });

/** A name that appears in code: of a workflow, a phase, a handler or a project. */
export const name = z
  .string()
  .regex(NAME_PATTERN, "must be a letter, then up to 39 letters, digits, _ or -")
  .openapi({ example: "thumbnails" });

/** A workflow to start: its name, or `NAME@VERSION`. */
export const workflowReference = z
  .string()
  .regex(REFERENCE_PATTERN, "must be the name of a workflow, or NAME@VERSION")
  .openapi({
    description: "the name of the workflow; `NAME@VERSION` for one version",
    example: "thumbnails",
  });

/** An execution's id. Ids that the engine makes may contain a `~`. */
export const executionId = z
  .string()
  .refine((id) => whyNoExecutionId(id) === null, `is not an execution id (${NAME_RULE})`)
  .openapi({
    example: "nightly-2026-11-15",
    minLength: 1,
    maxLength: NAME_BYTES_MAX,
    description: `${NAME_RULE}; percent-encoded in URLs`,
  });

/** A name that is composed at run time, such as that of a signal or a stream. */
export function runTimeName(description: string) {
  return z
    .string()
    .refine((given) => whyNoName(given) === null, `is not a name (${NAME_RULE})`)
    .openapi({
      minLength: 1,
      maxLength: NAME_BYTES_MAX,
      description: `${description}: ${NAME_RULE}; percent-encoded in URLs`,
    });
}

export const executionParams = z.strictObject({ id: executionId });

/** A page of items. */
export function pageOf<T extends z.ZodType>(item: T, what: string) {
  return z.object({
    data: z.array(item),
    next: z.string().nullable().describe(`the cursor of the next page of ${what}; null on the last page`),
  });
}

/** Any JSON value. */
export const anyJson = z.unknown().describe("any JSON value");

/** Milliseconds since 1970. */
export const time = z
  .number()
  .int()
  .openapi({ description: "milliseconds since 1970", example: 1_794_700_800_000 });
