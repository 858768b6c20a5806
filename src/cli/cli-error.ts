/** A failure the CLI tells in its own words: what happened, and under it what to look at or to do. */

import { RondoError } from "../std/rejection.ts";
import { StoreFault } from "../store/store.ts";
import { EXIT, EXIT_BY_REJECTION, type ExitCode } from "./exit-code.ts";

export class CliError extends Error {
  override name = "CliError";
  readonly exit: ExitCode;
  /** Lines under the message: where it is, what to do. */
  readonly more: readonly string[];
  constructor(exit: ExitCode, message: string, more: readonly string[] = [], options?: ErrorOptions) {
    super(message, options);
    this.exit = exit;
    this.more = more;
  }
}

/** Anything thrown as the CLI tells it. */
export function toCliError(thrown: unknown): CliError {
  if (thrown instanceof CliError) return thrown;
  if (thrown instanceof RondoError) return fromRejection(thrown);
  if (thrown instanceof StoreFault) {
    const isOwned = thrown.name === "DirectoryOwned";
    return new CliError(isOwned ? EXIT.conflict : EXIT.unreachable, thrown.message, isOwned ? OWNED : [], {
      cause: thrown,
    });
  }
  if (String((thrown as { code?: unknown } | null)?.code).startsWith("ERR_PARSE_ARGS"))
    return new CliError(EXIT.usage, (thrown as Error).message, [], { cause: thrown });
  const stack = thrown instanceof Error ? (thrown.stack ?? thrown.message) : String(thrown);
  return new CliError(EXIT.broken, `this is a bug in Rondo: ${stack}`, [], { cause: thrown });
}

const OWNED = ["to choose another directory: --store file:<directory>"];

function fromRejection(error: RondoError): CliError {
  const { code, hint } = error;
  const message =
    hint !== undefined && error.message.endsWith(` (${hint})`)
      ? error.message.slice(0, -hint.length - 3)
      : error.message;
  return new CliError(EXIT_BY_REJECTION[code], message, hint === undefined ? [] : [hint], { cause: error });
}
