/** The input on its way in: checked at start, stored as the caller's JSON, and parsed again for each handler. */
import { LIMITS } from "../kernel/definition/definition.ts";
import { toStoredText } from "../std/json.ts";
import { isRejection, type Rejection } from "../std/rejection.ts";
import { isThenable } from "../std/thenable.ts";
import { Fatal } from "./errors.ts";
import { parseWithSchema, type StandardSchema } from "./standard-schema.ts";
import type { AnyWorkflow } from "./workflow.ts";

/**
 * The JSON text to store for an input, or why it is refused: not storable, or not what the schema says. What is
 * checked is the stored form, since that is what handlers get to see.
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

/** Gives the schema's output of a stored value, a promise only if the schema is async; a value it refuses is fatal. */
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
