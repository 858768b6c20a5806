/** What a server says that does not do what a worker asks, and whether another try may help. */
import type { HttpAnswer } from "../../net/http-connection.ts";

/** The server's answer that a request as such is wrong: sending it again would change nothing. */
export interface Refused {
  readonly kind: "refused";
  readonly status: number;
  readonly code: string;
  readonly message: string;
}

/** The server answered, and the answer is no. */
export class ServerRefused extends Error {
  override name = "ServerRefused";
  readonly problem: Refused;
  constructor(problem: Refused) {
    super(`the server ${says(problem)}`);
    this.problem = problem;
  }
}

/** The refusal as a sentence about the server. */
export function says({ status, code, message }: Refused): string {
  if (status === 200) return `sent an answer that is not from Rondo: ${message.slice(0, 80)}`;
  return `answers ${status} ${code}: ${message}`;
}

/** Whether another try may be answered otherwise: the server is not ready, or something else has answered. */
export function isPassing({ status, text }: HttpAnswer): boolean {
  if (status === 200) return fieldsOf(text) === null;
  const { code } = problemOf(status, text);
  return status >= 500 || status === 429 || code === "unknown" || code === "invalid_json";
}

/** The value of a JSON text; null: it is none. */
export function fieldsOf(text: string): Readonly<Record<string, unknown>> | null {
  try {
    return JSON.parse(text) as Readonly<Record<string, unknown>> | null;
  } catch {
    // Not one of our servers, or something in between.
    return null;
  }
}

/** The problem that a status and a text tell of. */
export function problemOf(status: number, text: string): Refused {
  const { code, detail } = fieldsOf(text) ?? {};
  return {
    kind: "refused",
    status,
    code: typeof code === "string" ? code : "unknown",
    message: typeof detail === "string" ? detail : text.slice(0, 200),
  };
}
