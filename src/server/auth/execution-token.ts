/**
 * Tokens for one execution, which a page in a browser can hold. A token is signed with the store's key and contains its rights, so
 * nothing is stored for it, and every node can check it. It ends at its expiry, or when the token that it was made with ends.
 */
import { addressOf, ENGINE_MARK } from "../../kernel/definition/names.ts";
import { successorId } from "../../kernel/definition/successor-id.ts";
import type { TokenScope } from "../../sdk/operations.ts";
import { isSameSecret, sign } from "./secrets.ts";

/** The rights that a token for one execution can have. */
export const TOKEN_SCOPES = [
  "read",
  "history",
  "signal",
  "update",
  "cancel",
] as const satisfies readonly TokenScope[];

/** The rights of a token for one execution. */
export interface ExecutionGrant {
  readonly execution: string;
  /** The project of the execution when the token was made. */
  readonly project: string;
  readonly scopes: readonly TokenScope[];
  readonly expiresAt: number;
  /** The id of the token that this token was made with; null if its maker needed none. */
  readonly by: string | null;
}

const PREFIX = "rondo_x.";
const USE = "execution-token";
/**
 * Matches the id of an execution that continues another one (`ID~2`), with a number of at most nine digits. Ids of scheduled
 * executions end with a time, which has more digits.
 */
const SUCCESSOR = /~([2-9]|[1-9]\d{1,8})$/;

/** Makes the text of a token. Names have no control characters, so line breaks separate the fields. */
export function writeExecutionToken(key: string, grant: ExecutionGrant): string {
  const { execution, project, scopes, expiresAt, by } = grant;
  const fields = [execution, project, scopes.join(" "), expiresAt.toString(36), by ?? ""];
  const content = Buffer.from(fields.join("\n")).toString("base64url");
  return `${PREFIX}${content}.${sign(key, USE, content)}`;
}

/** Whether a text has the form of a token for one execution. */
export function isExecutionToken(text: string | null): text is string {
  return text?.startsWith(PREFIX) === true;
}

/** The rights of a token; null if its signature is wrong or it has expired. */
export function readExecutionToken(key: string, text: string, now: number): ExecutionGrant | null {
  const [content = "", signature = ""] = text.slice(PREFIX.length).split(".");
  if (!isSameSecret(signature, sign(key, USE, content))) return null;
  const fields = Buffer.from(content, "base64url").toString().split("\n");
  const [execution = "", project = "", scopes = "", expires = "", by = ""] = fields;
  const expiresAt = Number.parseInt(expires, 36);
  if (expiresAt <= now) return null;
  return {
    execution,
    project,
    scopes: scopes.split(" ") as TokenScope[],
    expiresAt,
    by: by === "" ? null : by,
  };
}

/**
 * Whether a token is valid for this execution. A token is valid for the execution that it names and for executions that
 * continue it (`ID~2`), but not for its children. A token for `ID~1` is valid only for the first execution.
 */
export function isFor({ execution }: Pick<ExecutionGrant, "execution">, id: string): boolean {
  if (id === execution || addressOf(id).stored === execution) return true;
  const number = execution.includes(ENGINE_MARK) ? undefined : SUCCESSOR.exec(id)?.[1];
  return number !== undefined && successorId(execution, Number(number)) === id;
}
