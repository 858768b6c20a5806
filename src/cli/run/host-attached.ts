/** `rondo run FILE` if another process (the owner) runs the engine: this process becomes a worker of the owner until the execution ends. */
import { RemoteRondo } from "../../client/connect.ts";
import { scriptsOf } from "../../compose/compose.ts";
import { HttpConnection } from "../../net/http-connection.ts";
import { HttpFault } from "../../net/http-fault.ts";
import { readManifest } from "../../package-root.ts";
import { systemClock } from "../../std/clock.ts";
import { systemRandom } from "../../std/random.ts";
import { RondoError } from "../../std/rejection.ts";
import { loggedBy } from "../../worker/attempt-place.ts";
import { withChildren } from "../../worker/handler-code.ts";
import { RemoteWorker } from "../../worker/http/remote-worker.ts";
import type { ExitCode } from "../exit-code.ts";
import { printLog } from "../log-line.ts";
import type { Screen } from "../progress/screen.ts";
import { fetchOver } from "../server/fetch-over-http.ts";
import { attach } from "./attach.ts";
import { Detach } from "./detach.ts";
import { followWanted } from "./follow-to-end.ts";
import type { ProcessGuard } from "./guard-process.ts";
import { printStart } from "./print-outcome.ts";
import { goOnCommand, type Wanted } from "./run-options.ts";

/** The owner: the process that runs the engine for the data directory or the server of --url. */
export interface Owner {
  /** The address of the process that runs the engine: `unix:<path>` or an http(s) URL. */
  readonly address: string;
  /** The name in messages of the process that runs the engine. */
  readonly name: string;
  readonly token: string | null;
  /** Whether another process may take over if the owner ends; false if --url names the owner. */
  readonly mayGo: boolean;
}

/** The result if the owner ended during the run. `id` is the execution that was started at the owner. */
export interface OwnerGone {
  readonly kind: "gone";
  readonly id: string | null;
}

/** How long the owner may be unreachable before this process checks whether it still has the data directory open. */
const AWAY_MS = 2_000;
const CAPACITY = 1_000;

/** Runs a worker of the owner (the process with the engine) until the wanted execution ends. */
export async function hostAttached(
  screen: Screen,
  guard: ProcessGuard,
  wanted: Wanted,
  owner: Owner,
): Promise<ExitCode | OwnerGone> {
  const connection = new HttpConnection({ address: owner.address });
  const rondo = new RemoteRondo({
    url: owner.address,
    fetch: fetchOver(connection),
    ...(owner.token === null ? {} : { token: owner.token }),
    ...(owner.mayGo ? { reconnectMs: AWAY_MS } : {}),
  });
  const own: { id: string | null } = { id: null };
  const worker = makeWorker(screen, guard, { wanted, owner, own });
  const detach = new Detach({
    screen,
    close: async ({ graceMs }) => {
      await worker.stop(graceMs);
      if (own.id !== null) await leaveOff();
    },
    leave: (exit) => guard.leave(exit),
  });
  let leaveOff = async (): Promise<void> => {};
  let isOwnerGone = false;
  try {
    for (const workflow of withChildren(wanted.workflows)) await rondo.register(workflow);
    await worker.start();
    const { handle, before } = await attach(rondo, wanted.workflow, wanted.input, wanted.options);
    leaveOff = async () => handle[Symbol.asyncDispose]();
    own.id = handle.id;
    guard.goOn = goOnCommand(wanted.file, handle.id, wanted.options);
    printStart(screen, `${wanted.workflow.name}: execution ${handle.id}`, before, `at ${owner.name}`);
    return await followWanted(rondo, wanted, { screen, detach, handle, before });
  } catch (thrown) {
    if (detach.exit !== null) return detach.exit;
    isOwnerGone = owner.mayGo && isGone(thrown);
    if (!isOwnerGone) throw thrown;
    return { kind: "gone", id: own.id };
  } finally {
    // The owner has ended, so nobody acknowledges the worker's last reports, and this process does not wait for that.
    if (isOwnerGone) worker.stop(0).catch(() => {});
    else await (detach.exit === null ? worker.stop(GRACE_MS) : detach.closed());
    detach.stop();
    connection.close();
  }
}

const GRACE_MS = 10_000;

function makeWorker(
  screen: Screen,
  guard: ProcessGuard,
  { wanted, owner, own }: { wanted: Wanted; owner: Owner; own: { readonly id: string | null } },
): RemoteWorker {
  let wasAway = false;
  return new RemoteWorker({
    addresses: [owner.address],
    ...(owner.token === null ? {} : { token: owner.token }),
    name: `run-${process.pid}`,
    capacity: CAPACITY,
    workflows: [...wanted.workflows, ...wanted.topics],
    scripts: scriptsOf(wanted.options.unsafeNoJail === true),
    spool: null,
    statusPort: null,
    version: readManifest().version,
    clock: systemClock({ hold: true }),
    random: systemRandom,
    onLog: (grant, item, logged) => printLog(screen, loggedBy(grant, item, logged), own.id ?? undefined),
    onTrouble: (what) => {
      const isAway = what !== null;
      if (isAway !== wasAway)
        screen.print(`the server ${owner.name} ${isAway ? "does not answer" : "answers again"}`);
      wasAway = isAway;
    },
    onRegistered: () => {},
    onDrain: () => screen.print(`the server ${owner.name} drains this worker: it gets no further tasks`),
    onDropped: (attempt, why) => screen.note(`${attempt}: ${why.message}`),
    onBug: (thrown) => guard.stop("worker", thrown),
  });
}

/** Whether the error means that the owner cannot be reached any more. */
function isGone(thrown: unknown): boolean {
  return thrown instanceof RondoError && thrown.code === "not_ready" && thrown.cause instanceof HttpFault;
}
