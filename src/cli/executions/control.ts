/** `rondo pause|resume|cancel|retry|drop ID` and `rondo signal ID NAME`: commands to an execution. */
import { userInfo } from "node:os";
import type { ExecutionView } from "../../kernel/view.ts";
import { defined } from "../../std/defined.ts";
import { EXIT, type ExitCode } from "../exit-code.ts";
import { printJson, printLine } from "../output/print.ts";
import { readInput } from "../read-input.ts";
import { type ServerFlags, withServer } from "../server/find-server.ts";

export interface ControlFlags extends ServerFlags {
  readonly reason?: string;
  /** Whether to leave out the rest of a clean-up that is under way; for cancel only. */
  readonly force?: boolean;
}

export type Control = "pause" | "resume" | "cancel" | "retry";

const SAYS: Readonly<Record<Control, string>> = {
  pause: "starts nothing new until it is resumed",
  resume: "goes on",
  cancel: "is being cancelled",
  retry: "runs its unfinished tasks again",
};

/** Pauses, resumes, cancels or retries an execution. */
export async function control(kind: Control, id: string, options: ControlFlags): Promise<ExitCode> {
  return withServer(options, async ({ rondo }) => {
    const handle = rondo.execution(id);
    await handle[kind](defined({ reason: options.reason, by: whoAmI(), force: options.force }));
    printChange(await handle.describe(), SAYS[kind], options);
    return EXIT.ok;
  });
}

/** Deletes a damaged execution. */
export async function drop(id: string, options: ServerFlags): Promise<ExitCode> {
  return withServer(options, async ({ rondo }) => {
    await rondo.requester.json(`/v1/executions/${encodeURIComponent(id)}/drop`, { method: "POST" });
    if (options.json) printJson({ dropped: id });
    else printLine(`${id} is dropped, with all that was stored of it`);
    return EXIT.ok;
  });
}

export interface SignalFlags extends ServerFlags {
  /** The data of the signal: JSON, `@file`, or `-` for standard input. */
  readonly data?: string;
  /** The id of the signal: a second signal with the same id changes nothing. */
  readonly id?: string;
}

/** Sends a signal. */
export async function signal(id: string, name: string, options: SignalFlags): Promise<ExitCode> {
  const data = options.data === undefined ? null : await readInput(options.data, printLine, "-d");
  return withServer(options, async ({ rondo }) => {
    const handle = rondo.execution(id);
    await handle.signal(name, data, defined({ id: options.id }));
    printChange(await handle.describe(), `has received the signal "${name}"`, options);
    return EXIT.ok;
  });
}

function printChange(view: ExecutionView, what: string, options: ServerFlags): void {
  if (options.json) printJson(view);
  else printLine(`execution ${view.id} ${what}; it is ${view.status}`);
}

function whoAmI(): string | undefined {
  try {
    return userInfo().username || undefined;
  } catch {
    // Some containers have no user name; then the server names the caller.
    return undefined;
  }
}
