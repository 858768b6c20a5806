/**
 * Validates inputs. At a start, the input is checked by the schema and stored as the JSON that the caller gave; each handler
 * parses it again.
 */
import { LIMITS } from "../kernel/definition/definition.ts";
import { toStoredText } from "../std/json.ts";
import { isRejection, type Rejection } from "../std/rejection.ts";
import { isThenable } from "../std/thenable.ts";
import { Fatal } from "./errors.ts";
import { parseWithSchema, type StandardSchema } from "./standard-schema.ts";
import type { AnyWorkflow } from "./workflow.ts";

/**
 * Returns the JSON text to store for an input, or a rejection if the input cannot be stored or does not match the schema. The
 * schema checks the value as it will be read back from the store, because handlers get that value.
 */
export async function validateInput(
  workflow: Pick<AnyWorkflow, "inputSchema">,
  input: unknown,
): Promise<string | Rejection> {
  const text = toStoredText(input, { bytesMax: LIMITS.inputBytes, what: "input" });
  if (isRejection(text) || workflow.inputSchema === undefined) return text;
  const parsed = await parseWithSchema(workflow.inputSchema, JSON.parse(text), "input");
  return isRejection(parsed) ? parsed : text;
}

/**
 * Returns a function that parses stored values by a schema. It returns a promise only if the schema is async. A value that the
 * schema refuses fails the task without a retry.
 */
export function parserOf(schema: StandardSchema, what: string): (stored: unknown) => unknown {
  return (stored) => {
    const parsed = parseWithSchema(schema, stored, what);
    return isThenable(parsed) ? parsed.then(open) : open(parsed);
  };
}

function open(parsed: { readonly value: unknown } | Rejection): unknown {
  if (isRejection(parsed)) throw new Fatal(parsed.message);
  return parsed.value;
}
