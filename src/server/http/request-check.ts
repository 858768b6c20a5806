/** Checks path, query, headers and body of a request by its route. */
import type { IncomingMessage } from "node:http";
import { z } from "@hono/zod-openapi";
import { isRejection, type Rejection, reject } from "../../std/rejection.ts";
import type { ApiLimits } from "../parts.ts";
import type { Route } from "../route.ts";
import { type Parsed, readJsonBody } from "./read-body.ts";

export interface CheckedRequest {
  readonly params: unknown;
  readonly query: unknown;
  readonly body: unknown;
  readonly idempotencyKey: string | null;
}

/** The unchecked parts of a request. */
export interface RawRequest {
  readonly incoming: IncomingMessage;
  readonly params: Readonly<Record<string, string>>;
  readonly query: Readonly<Record<string, readonly string[]>>;
}

const NO_QUERY = z.strictObject({});
const ANYTHING = z.unknown();
const KEY_CHARS_MAX = 200;

/** Returns the checked parts of a request, or a rejection for the first mistake in it. */
export async function checkRequest(
  request: RawRequest,
  route: Route,
  limits: ApiLimits,
): Promise<CheckedRequest | Rejection> {
  const params = checkPart(route.params ?? ANYTHING, request.params, "path");
  // An invalid name is answered with "not found", because nothing can exist under it.
  if (isRejection(params)) return { ...params, code: "not_found" };
  const repeated = Object.entries(request.query).find(([, values]) => values.length > 1);
  if (repeated !== undefined)
    return reject("invalid_input", `${repeated[0].slice(0, 60)}: is given more than once`, {
      path: repeated[0].slice(0, 60),
    });
  const single = Object.fromEntries(Object.entries(request.query).map(([name, [value]]) => [name, value]));
  const query = checkPart(route.query ?? NO_QUERY, single, "query");
  if (isRejection(query)) return query;
  const idempotencyKey = checkKey(request.incoming);
  if (isRejection(idempotencyKey)) return idempotencyKey;
  const body = await checkBody(request.incoming, route, limits);
  if (isRejection(body)) return body;
  return { params: params.value, query: query.value, body: body.value, idempotencyKey };
}

async function checkBody(
  incoming: IncomingMessage,
  route: Route,
  limits: ApiLimits,
): Promise<{ readonly kind: "parsed"; readonly value: unknown } | Rejection> {
  if (route.body === undefined) return { kind: "parsed", value: undefined };
  const sent = await readJsonBody(incoming, {
    bytesMax: route.bodyBytesMax ?? limits.bodyBytes,
    keysMax: route.bodyKeysMax ?? limits.bodyKeys,
  });
  if (isRejection(sent)) return sent;
  if (sent.value === undefined && route.isBodyOptional !== true)
    return reject("invalid_json", "the request needs a JSON body");
  // Schemas that allow unknown fields would drop `__proto__` silently.
  if (typeof sent.value === "object" && sent.value !== null && Object.hasOwn(sent.value, "__proto__"))
    return reject("unknown_field", "__proto__: there is no such field", { path: "__proto__" });
  return checkPart(route.body, sent.value === undefined ? {} : sent.value, "body");
}

function checkKey(incoming: IncomingMessage): string | null | Rejection {
  const key = incoming.headers["idempotency-key"];
  if (key === undefined) return null;
  if (typeof key === "string" && key.length > 0 && key.length <= KEY_CHARS_MAX) return key;
  return reject("invalid_input", `Idempotency-Key: must be a text of 1 to ${KEY_CHARS_MAX} characters`, {
    path: "Idempotency-Key",
  });
}

type Issue = z.core.$ZodIssue;

/** Parses a value by its schema. Returns the first mistake as a rejection. */
export function checkPart(
  schema: z.ZodType,
  value: unknown,
  part: "path" | "query" | "body",
): Parsed | Rejection {
  const result = schema.safeParse(value);
  return result.success
    ? { kind: "parsed", value: result.data }
    : rejectionOf(result.error.issues[0] as Issue, part);
}

function rejectionOf(issue: Issue, part: string): Rejection {
  if (issue.code === "unrecognized_keys") {
    const path = pathText([...issue.path, issue.keys[0] as string]);
    return reject(
      "unknown_field",
      `${path.slice(0, 200)}: there is no such ${part === "query" ? "parameter" : "field"}`,
      {
        path: path.slice(0, 200),
      },
    );
  }
  const path = pathText(issue.path).slice(0, 200);
  return reject(
    "invalid_input",
    path === "" ? `the ${part} ${plainly(issue.message)}` : `${path}: ${plainly(issue.message)}`,
    {
      ...(path === "" ? {} : { path }),
    },
  );
}

/** Writes the path ["events", 3, "kind"] as the text `events[3].kind`. */
function pathText(path: readonly PropertyKey[]): string {
  let text = "";
  for (const key of path)
    text += typeof key === "number" ? `[${key}]` : `${text === "" ? "" : "."}${String(key)}`;
  return text;
}

function plainly(message: string): string {
  if (message.endsWith("received undefined")) return "is missing";
  return message.replace(/^Invalid input: /, "").replace(/^[A-Z](?=[a-z])/, (letter) => letter.toLowerCase());
}
