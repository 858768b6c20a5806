/** Exit codes of the CLI, and the table that maps the codes of rejections to them. */
import type { RejectionCode } from "../std/rejection.ts";

export const EXIT = {
  ok: 0,
  failed: 1,
  usage: 2,
  notFound: 3,
  conflict: 4,
  unauthorised: 5,
  unreachable: 6,
  cancelled: 7,
  /** Stored data is damaged. Starting again does not help. */
  damaged: 8,
  /** The disk is full. */
  noSpace: 9,
  /** A bug in Rondo, user code that threw outside of a task, or a database that has lost acknowledged writes. */
  broken: 70,
  timeout: 124,
  interrupted: 130,
  terminated: 143,
} as const;

export type ExitCode = (typeof EXIT)[keyof typeof EXIT];

/** The exit code for each code of a rejection. */
export const EXIT_BY_REJECTION: Readonly<Record<RejectionCode, ExitCode>> = {
  invalid_json: EXIT.usage,
  too_large: EXIT.usage,
  invalid_input: EXIT.usage,
  invalid_definition: EXIT.usage,
  unknown_field: EXIT.usage,
  not_storable: EXIT.usage,
  too_deep: EXIT.usage,
  unauthorised: EXIT.unauthorised,
  forbidden: EXIT.unauthorised,
  not_found: EXIT.notFound,
  conflict: EXIT.conflict,
  wrong_status: EXIT.conflict,
  gone: EXIT.conflict,
  stale_attempt: EXIT.conflict,
  not_owner: EXIT.unreachable,
  rate_limited: EXIT.unreachable,
  store_unavailable: EXIT.unreachable,
  not_ready: EXIT.unreachable,
  update_refused: EXIT.failed,
  timeout: EXIT.timeout,
};
