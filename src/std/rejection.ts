/**
 * The codes of rejections: expected refusals that the caller can act on. The API maps codes to HTTP statuses in one place; the
 * CLI maps them to exit codes.
 */
export type RejectionCode =
  | "invalid_json"
  | "unauthorised"
  | "forbidden"
  | "not_found"
  | "conflict"
  | "wrong_status"
  | "gone"
  | "stale_attempt"
  | "update_refused"
  | "too_large"
  | "not_owner"
  | "invalid_input"
  | "invalid_definition"
  | "unknown_field"
  | "not_storable"
  | "too_deep"
  | "rate_limited"
  | "store_unavailable"
  | "not_ready"
  | "timeout";

/** A refusal: what happened, where, and what to do next. */
export interface Rejection {
  /** Distinguishes rejections from other values. */
  readonly kind: "rejection";
  /** The kind of refusal. */
  readonly code: RejectionCode;
  /** The reason for the refusal. */
  readonly message: string;
  /** The caller's next step. */
  readonly hint?: string;
  /** The part of the given data that is refused. */
  readonly path?: string;
}

export function reject(
  code: RejectionCode,
  message: string,
  more: { hint?: string; path?: string } = {},
): Rejection {
  return { kind: "rejection", code, message, ...more };
}

export function isRejection(value: unknown): value is Rejection {
  return typeof value === "object" && value !== null && (value as { kind?: unknown }).kind === "rejection";
}

/** The error that Rondo throws when it refuses a request: what is wrong, where, and what to do. */
export class RondoError extends Error {
  override name = "RondoError";
  /** The kind of refusal. */
  readonly code: RejectionCode;
  /** The caller's next step. */
  readonly hint: string | undefined;
  /** The part of the given data that is refused. */
  readonly path: string | undefined;
  /** Made by Rondo. */
  constructor(rejection: Rejection, options?: ErrorOptions) {
    super(rejection.hint ? `${rejection.message} (${rejection.hint})` : rejection.message, options);
    this.code = rejection.code;
    this.hint = rejection.hint;
    this.path = rejection.path;
  }
}

/** Returns the value, or throws its rejection as a `RondoError`. */
export function unwrap<T>(value: T | Rejection): T {
  if (isRejection(value)) throw new RondoError(value);
  return value;
}
