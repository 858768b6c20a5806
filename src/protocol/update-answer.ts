/** The answer to an update, as the step that answers it stores it: a value, or an error. */
import { jsonFields } from "../std/decode.ts";
import type { Json } from "../std/json.ts";
import { type Rejection, reject } from "../std/rejection.ts";

/** The error with which code refuses an update. */
export interface RefusedUpdate {
  /** The name of the error. */
  readonly name: string;
  /** The reason. */
  readonly message: string;
  /** A code for programs. */
  readonly code?: string;
}

/** The rejection if an update has no answer in time. */
export function notAnswered(
  { name, id }: { readonly name: string; readonly id: string },
  ms: number,
): Rejection {
  return reject("timeout", `the update "${name}" has no answer within ${ms} ms`, {
    hint: `the update is stored: send it again with the id "${id}" to wait for its answer`,
  });
}

export type UpdateAnswer = { readonly value: Json } | { readonly error: RefusedUpdate };

/** Reads the stored text of an answer; null if the text is not an answer. */
export function readAnswer(text: string): UpdateAnswer | null {
  const answer = jsonFields(text);
  if (answer === null) return null;
  if ("value" in answer) return { value: answer["value"] as Json };
  const error = answer["error"] as Partial<RefusedUpdate> | null | undefined;
  if (typeof error?.name !== "string" || typeof error.message !== "string") return null;
  const { name, message, code } = error;
  return { error: { name, message, ...(typeof code === "string" ? { code } : {}) } };
}
