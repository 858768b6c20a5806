/** `rondo wait ID`: waits until an execution ends and prints its output. The exit code says how it ended. */
import type { RemoteRondo } from "../../client/connect.ts";
import type { ExitCode } from "../exit-code.ts";
import type { PhaseLabels } from "../progress/progress.ts";
import { Screen } from "../progress/screen.ts";
import { Detach } from "../run/detach.ts";
import { checkTimeout, followToEnd } from "../run/follow-to-end.ts";
import { printStart } from "../run/print-outcome.ts";
import { serverCommand } from "../run/run-options.ts";
import { type Flags, type ServerFlags, withServer } from "../server/find-server.ts";

export type WaitOptions = ServerFlags & Flags<"timeout">;

/** Waits for an execution at a server. */
export async function wait(id: string, options: WaitOptions): Promise<ExitCode> {
  checkTimeout(options.timeout);
  const screen = new Screen(process.stderr);
  return withServer(
    options,
    ({ rondo, name }) => stay(rondo, id, { ...options, screen, where: `at ${name}`, wasStarted: false }),
    { say: (line) => screen.print(line) },
  );
}

export interface StayOptions extends WaitOptions {
  readonly screen: Screen;
  /** The name of the server in messages. */
  readonly where: string;
  /** Whether this process has just started the execution. */
  readonly wasStarted: boolean;
  /** Whether the execution has an input; false if it was started without one. */
  readonly hasInput?: boolean;
  /** Returns a document that is printed at the end instead of the output. */
  readonly document?: () => Promise<unknown>;
  /** Display names of the phases. */
  readonly labels?: PhaseLabels;
}

/** Waits until an execution at a server ends. Ctrl-C ends the wait, not the execution. */
export async function stay(
  rondo: RemoteRondo,
  id: string,
  { screen, where, wasStarted, ...options }: StayOptions,
): Promise<ExitCode> {
  const handle = rondo.execution(id);
  const detach = new Detach({
    screen,
    says: "leaving: the execution continues at the server",
    close: async () => handle[Symbol.asyncDispose](),
    leave: (exit) => process.exit(exit),
  });
  try {
    const before = await handle.describe();
    printStart(screen, `${before.workflow}: execution ${handle.id}`, wasStarted ? null : before, where);
    return await followToEnd(handle, {
      screen,
      detach,
      before,
      names: before.phases.map(({ name }) => name),
      timeout: options.timeout,
      json: options.json,
      hasInput: options.hasInput,
      document: options.document,
      labels: options.labels,
      whyOf: (each) => rondo.execution(each).why(),
      goOn: serverCommand(["wait", handle.id], options),
      see: serverCommand(["inspect", handle.id], options),
      retry: serverCommand(["retry", handle.id], options),
    });
  } finally {
    screen.still();
    detach.stop();
  }
}
