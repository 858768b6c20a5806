/** An error of the CLI: a message, and below it lines that say what to check or do. */
import { ExecutionFailed } from "../sdk/errors.ts";
import { RondoError } from "../std/rejection.ts";
import { StoreFault } from "../store/store.ts";
import { EXIT, EXIT_BY_REJECTION, type ExitCode } from "./exit-code.ts";

export class CliError extends Error {
  override name = "CliError";
  readonly exit: ExitCode;
  /** Lines below the message: the place of the error, and what to do. */
  readonly more: readonly string[];
  constructor(exit: ExitCode, message: string, more: readonly string[] = [], options?: ErrorOptions) {
    super(message, options);
    this.exit = exit;
    this.more = more;
  }
}

/** Converts anything thrown into a CLI error. */
export function toCliError(thrown: unknown): CliError {
  if (thrown instanceof CliError) return thrown;
  if (thrown instanceof RondoError) return fromRejection(thrown);
  if (thrown instanceof ExecutionFailed)
    return new CliError(thrown.execution.status === "damaged" ? EXIT.damaged : EXIT.failed, thrown.message);
  if (thrown instanceof StoreFault) {
    const isOwned = thrown.name === "DirectoryOwned";
    return new CliError(exitOf(thrown), thrown.message, isOwned ? OWNED : [], { cause: thrown });
  }
  if (String((thrown as { code?: unknown } | null)?.code).startsWith("ERR_PARSE_ARGS"))
    return new CliError(EXIT.usage, (thrown as Error).message, [], { cause: thrown });
  if (isFileError(thrown)) return new CliError(EXIT.unreachable, thrown.message, [], { cause: thrown });
  const stack = thrown instanceof Error ? (thrown.stack ?? thrown.message) : String(thrown);
  return new CliError(EXIT.broken, `this is a bug in Rondo: ${stack}`, [], { cause: thrown });
}

/** The exit code for a fault of the store. */
export function exitOf(fault: StoreFault): ExitCode {
  if (fault.name === "DirectoryOwned") return EXIT.conflict;
  if (fault.name === "StoreUnreadable" && "reason" in fault && fault.reason === "damaged")
    return EXIT.damaged;
  // Running nodes also end with this exit code if the database has lost acknowledged writes.
  if (fault.name === "DatabaseUnusable" && "reason" in fault && fault.reason === "older") return EXIT.broken;
  return fault.message.startsWith("the disk is full") ? EXIT.noSpace : EXIT.unreachable;
}

/** Whether this is an error about a file or directory that the user named. The error's message names the path too. */
function isFileError(thrown: unknown): thrown is Error {
  return thrown instanceof Error && "syscall" in thrown && "path" in thrown;
}

const OWNED = ["to choose another directory: --store file:<directory>"];

/** Hints of the API and the hints that replace them on the command line; null if the message alone is enough. */
const ADVICE: Readonly<Record<string, string | null>> = {
  "check the id, or list executions": "list the executions: rondo ps",
  "check the execution's status first": "look at the execution first: rondo inspect <id>",
  "look up the name in a list, or the path in /openapi.json": null,
  "see /openapi.json for what is expected": null,
  "leave out the unknown field; /openapi.json lists the known ones": "leave it out",
  "register it with POST /v1/workflows, or run a worker that serves it":
    "to serve the workflow: rondo worker FILE (with --broker also --url, so that a server gets the definition)",
};

function hintLines(hint: string | undefined): string[] {
  if (hint === undefined) return [];
  const advice = Object.hasOwn(ADVICE, hint) ? ADVICE[hint] : hint;
  return advice === null || advice === undefined ? [] : [advice];
}

function fromRejection(error: RondoError): CliError {
  const { code, hint } = error;
  const message =
    hint !== undefined && error.message.endsWith(` (${hint})`)
      ? error.message.slice(0, -hint.length - 3)
      : error.message;
  return new CliError(EXIT_BY_REJECTION[code], message, hintLines(hint), { cause: error });
}
