/** Refusals of a server, and whether a retry of the request may help. */
import type { HttpAnswer } from "../../net/http-connection.ts";
import { jsonFields } from "../../std/decode.ts";

/** A request that the server refused. Sending it again would change nothing. */
export interface Refused {
  readonly kind: "refused";
  readonly status: number;
  readonly code: string;
  readonly message: string;
}

/** Thrown if the server refused a request. */
export class ServerRefused extends Error {
  override name = "ServerRefused";
  readonly problem: Refused;
  constructor(problem: Refused) {
    super(`the server ${describeRefusal(problem)}`);
    this.problem = problem;
  }
}

/** Describes the refusal in words that follow "the server" in a sentence. */
export function describeRefusal({ status, code, message }: Refused): string {
  if (status === 200) return `sent an answer that is not from Rondo: ${message.slice(0, 80)}`;
  return `answers ${status} ${code}: ${message}`;
}

/** Whether a retry may get another answer, because the server is not ready or the answer did not come from a Rondo server. */
export function isPassing({ status, text }: HttpAnswer): boolean {
  if (status === 200) return jsonFields(text) === null;
  const { code } = problemOf(status, text);
  return status >= 500 || status === 429 || code === "unknown" || code === "invalid_json";
}

export function problemOf(status: number, text: string): Refused {
  const { code, detail } = jsonFields(text) ?? {};
  return {
    kind: "refused",
    status,
    code: typeof code === "string" ? code : "unknown",
    message: typeof detail === "string" ? detail : text.slice(0, 200),
  };
}
