/** `serve` of a client: runs a worker in this program, for the tasks of a server. */
import { anyFunction, type Called } from "../protocol/check-options.ts";
import type { ContextExtensions } from "../sdk/context.ts";
import type { LogLine } from "../sdk/log-line.ts";
import { type Decode, flag, integer, object, optional, secret, text, where } from "../std/decode.ts";
import type { HostedTopic, HostedWorkflow, Middleware } from "../worker/handler-code.ts";

/** Options of `serve` of a client. */
export interface ServeOptions {
  /**
   * The most tasks that run at a time.
   *
   * @default 100
   */
  readonly capacity?: number;
  /**
   * The name of the worker: 1 to 40 of A-Z, a-z, 0-9, `_`, `.` and `-`.
   *
   * @default the name of the host and the process id
   */
  readonly name?: string;
  /**
   * Middleware around all code of the worker. The first one is the outermost.
   *
   * @default []
   */
  readonly use?: readonly Middleware<Partial<ContextExtensions>>[];
  /**
   * Values that logs and errors show as `[redacted]`. Each has at least 4 characters.
   *
   * @default []
   */
  readonly secrets?: readonly string[];
  /**
   * Whether to run scripts even if this machine does not support the outer layer of their sandbox. For trusted scripts only.
   *
   * @default false
   */
  readonly unsafeNoJail?: boolean;
  /**
   * Called with each line that a handler logs.
   *
   * @default none: the lines are only stored
   */
  readonly onLog?: (line: LogLine) => void;
  /**
   * Called with a line of text when the server does not answer, when it is back, and when it refuses a report.
   *
   * @default writes the line to stderr
   */
  readonly onFaultLine?: (line: string) => void;
  /**
   * Called when the worker has to end because of an error.
   *
   * @default ends the process
   */
  readonly onStop?: (reason: Error) => void;
}

/** A worker that `serve` of a client has started. Disposing it closes it. */
export interface ServedWorker extends AsyncDisposable {
  /** The id of the worker at the server. */
  readonly id: string;
  /** Resolves when the worker has ended: by `close`, or because the server asked it to leave. */
  readonly closed: Promise<void>;
  /**
   * Claims no further tasks, lets running ones end within `graceMs` (25,000 by default), and leaves the server.
   *
   * @example await worker.close({ graceMs: 60_000 });
   */
  close(options?: { readonly graceMs?: number }): Promise<void>;
}

/** Code that a worker serves: workflows with the code of their handlers, and topics. */
export type ServedCode = HostedWorkflow | HostedTopic;

/** Starts a worker in this process. */
export type ServeHere = (
  server: { readonly urls: readonly string[]; readonly token: string | null },
  code: readonly ServedCode[],
  options: ServeOptions,
) => Promise<ServedWorker>;

export const SERVE = {
  name: "serve",
  example: 'connect({ url: "http://127.0.0.1:7777" }).serve(nightly, { capacity: 20 })',
  options: object(
    {
      capacity: optional(integer(1, 100_000)),
      name: optional(text({ pattern: /^[A-Za-z0-9][A-Za-z0-9_.-]{0,39}$/, what: "a name of a worker" })),
      secrets: optional(secret("a list", Array.isArray)),
      use: optional(
        where(
          "a list of functions",
          (value) => Array.isArray(value) && value.every((one) => typeof one === "function"),
        ),
      ),
      unsafeNoJail: optional(flag),
      onLog: anyFunction,
      onFaultLine: anyFunction,
      onStop: anyFunction,
    } satisfies Readonly<Record<keyof ServeOptions, Decode<unknown>>>,
    { what: "serve" },
  ),
} satisfies Called;
