/** `rondo wait ID`: stays until an execution is over; its output is on stdout, and the exit code says how it ended. */
import type { ExecutionHandle } from "../../sdk/handle.ts";
import type { ExitCode } from "../exit-code.ts";
import { Screen } from "../progress/screen.ts";
import { Detach } from "../run/detach.ts";
import { checkTimeout, followToEnd } from "../run/follow-to-end.ts";
import { serverCommand } from "../run/run-options.ts";
import { type ServerFlags, withServer } from "../server/find-server.ts";

export interface WaitOptions extends ServerFlags {
  readonly timeout?: string;
}

/** Waits for an execution at a server. */
export async function wait(id: string, options: WaitOptions): Promise<ExitCode> {
  checkTimeout(options.timeout);
  return withServer(options, ({ rondo }) => stay(new Screen(process.stderr), rondo.execution(id), options));
}

/** Stays with an execution at a server until it is over; Ctrl-C leaves it alone. */
export async function stay(
  screen: Screen,
  handle: ExecutionHandle<unknown>,
  options: WaitOptions,
): Promise<ExitCode> {
  const before = await handle.status();
  const detach = new Detach({
    screen,
    says: "leaving: the execution goes on without us",
    close: async () => handle[Symbol.asyncDispose](),
    leave: (exit) => process.exit(exit),
  });
  try {
    return await followToEnd(handle, {
      screen,
      detach,
      before,
      names: before.phases.map(({ name }) => name),
      timeout: options.timeout,
      json: options.json,
      goOn: serverCommand(["wait", handle.id], options),
      see: serverCommand(["inspect", handle.id], options),
      retry: serverCommand(["retry", handle.id], options),
    });
  } finally {
    screen.still();
    detach.stop();
  }
}
