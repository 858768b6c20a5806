/** Errors of the server as `RondoError`s: RFC 9457 problems with Rondo's code, hint and path. */
import { jsonFields } from "../std/decode.ts";
import { type Rejection, type RejectionCode, RondoError, reject } from "../std/rejection.ts";

/** The code for a status, where the answer does not say it: something between us and the server spoke. */
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

/** Every code there is, to tell a server's own from another's. */
const CODES: ReadonlySet<string> = new Set<RejectionCode>([
  "invalid_json",
  "unauthorised",
  "forbidden",
  "not_found",
  "conflict",
  "wrong_status",
  "stale_attempt",
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

/** The refusal that an answer with an error status holds. */
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

/** No server could be talked to. Made where the last attempt failed. */
export function unreachable(urls: readonly string[], cause: unknown): RondoError {
  const why = reasonOf(cause);
  return new RondoError(
    reject("not_ready", `cannot reach ${urls.join(" or ")}: ${why}`, {
      hint: "is the server running? Start one with `rondo start`",
    }),
    { cause },
  );
}

/** Something answered, and well, but not in JSON: another server's page, or one of a proxy in between. */
export function notRondo(urls: readonly string[], cause: unknown): RondoError {
  return new RondoError(
    reject("not_ready", `${urls.join(" or ")} does not answer as a server of Rondo does`, {
      hint: "check the address, and what is between you and it",
    }),
    { cause },
  );
}

/** `fetch` hides the reason behind "fetch failed". */
function reasonOf(cause: unknown): string {
  const inner = (cause as { cause?: unknown } | null)?.cause;
  for (const error of [inner, cause]) {
    const { code, message } = (error ?? {}) as { code?: unknown; message?: unknown };
    if (typeof code === "string" && code.startsWith("E")) return code;
    if (typeof message === "string" && message !== "") return message;
  }
  return String(cause);
}
