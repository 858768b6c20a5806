/** Converts error responses of the server to `RondoError`s. The responses are RFC 9457 problems with Rondo's code, hint and path. */
import { jsonFields } from "../std/decode.ts";
import { type Rejection, type RejectionCode, RondoError, reject } from "../std/rejection.ts";

/** The error code by HTTP status, for responses without a code, which a proxy has sent. */
const CODE_BY_STATUS: Readonly<Record<number, RejectionCode>> = {
  400: "invalid_json",
  401: "unauthorised",
  403: "forbidden",
  404: "not_found",
  405: "not_found",
  408: "timeout",
  409: "conflict",
  413: "too_large",
  421: "not_owner",
  422: "invalid_input",
  429: "rate_limited",
  431: "too_large",
  504: "timeout",
};

/** All error codes that Rondo servers send. A response with another code is not from a Rondo server. */
const CODES: ReadonlySet<string> = new Set<RejectionCode>([
  "invalid_json",
  "unauthorised",
  "forbidden",
  "not_found",
  "conflict",
  "wrong_status",
  "gone",
  "stale_attempt",
  "update_refused",
  "too_large",
  "not_owner",
  "invalid_input",
  "invalid_definition",
  "unknown_field",
  "not_storable",
  "too_deep",
  "rate_limited",
  "store_unavailable",
  "not_ready",
  "timeout",
]);

/** Converts a response with an error status to a rejection. */
export function problemOf(status: number, text: string): Rejection {
  const { code, title, detail, hint, path } = jsonFields(text) ?? {};
  const message = [detail, title].find((value) => typeof value === "string" && value !== "");
  return reject(
    typeof code === "string" && CODES.has(code)
      ? (code as RejectionCode)
      : (CODE_BY_STATUS[status] ?? "not_ready"),
    typeof message === "string" ? message : `the server answered ${status}`,
    {
      ...(typeof hint === "string" ? { hint } : {}),
      ...(typeof path === "string" ? { path } : {}),
    },
  );
}

/** Makes the error for a request that reached no server. */
export function unreachable(urls: readonly string[], cause: unknown): RondoError {
  const why = reasonOf(cause);
  return new RondoError(
    reject("not_ready", `cannot reach ${urls.join(" or ")}: ${why}`, {
      hint: "check whether the server is running; to start one: `rondo start`",
    }),
    { cause },
  );
}

/** Makes the error for a successful response that is not JSON. Such a response comes from another kind of server, or from a proxy. */
export function notRondo(urls: readonly string[], cause: unknown): RondoError {
  return new RondoError(
    reject("not_ready", `${urls.join(" or ")} did not answer as a Rondo server does`, {
      hint: "check the address, and any proxy on the way",
    }),
    { cause },
  );
}

/** Returns the reason why a request failed. `fetch` hides the reason behind "fetch failed". */
function reasonOf(cause: unknown): string {
  const inner = (cause as { cause?: unknown } | null)?.cause;
  for (const error of [inner, cause]) {
    const { code, message } = (error ?? {}) as { code?: unknown; message?: unknown };
    if (typeof code === "string" && code.startsWith("E")) return code;
    if (typeof message === "string" && message !== "") return message;
  }
  return String(cause);
}
