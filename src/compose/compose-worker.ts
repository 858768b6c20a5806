/** The worker of `connect(...).serve`: it runs the handlers of a program for the tasks of a server. */
import { hostname } from "node:os";
import { RemoteRondo } from "../client/connect.ts";
import type { ServedCode, ServedWorker, ServeHere } from "../client/serve-options.ts";
import { readManifest } from "../package-root.ts";
import { checkCloseOptions } from "../protocol/check-request.ts";
import { BackOff } from "../std/back-off.ts";
import { systemClock } from "../std/clock.ts";
import { defined } from "../std/defined.ts";
import { systemRandom } from "../std/random.ts";
import { RondoError, reject } from "../std/rejection.ts";
import { toError } from "../std/to-error.ts";
import { sleep } from "../std/within.ts";
import { loggedBy } from "../worker/attempt-place.ts";
import { type HostedWorkflow, withChildren } from "../worker/handler-code.ts";
import { hasScripts } from "../worker/has-scripts.ts";
import { RemoteWorker } from "../worker/http/remote-worker.ts";
import { endProcess, scriptsOf } from "./compose.ts";

const CAPACITY = 100;
/** Error codes of a server that is starting, stopping or unreachable, so that the request is repeated. */
const ABSENT: readonly string[] = ["not_ready", "store_unavailable", "rate_limited", "timeout"];
/** How long running tasks may take to end when the worker closes, if the caller gives no time. */
const GRACE_MS = 25_000;

/** Registers the definitions and starts the worker. Resolves when a server has accepted it. */
export const serveHere: ServeHere = async ({ urls, token }, code, options) => {
  const workflows = withChildren(code.filter(isWorkflow));
  const { onFaultLine = (line) => console.error(`rondo: ${line}`), onStop = endProcess, onLog } = options;
  await registerAll({ urls, token, onFaultLine }, workflows);
  const scripts = workflows.some(({ definition }) => hasScripts(definition))
    ? scriptsOf(options.unsafeNoJail === true)
    : undefined;
  let onClosed: () => void = () => {};
  const closed = new Promise<void>((resolve) => {
    onClosed = resolve;
  });
  let ending: Promise<void> | null = null;
  return new Promise<ServedWorker>((resolve, refuse) => {
    const close = (graceMs = GRACE_MS): Promise<void> => {
      ending ??= worker.stop(graceMs).then(onClosed);
      return ending;
    };
    const worker = new RemoteWorker({
      addresses: urls,
      ...(token === null ? {} : { token }),
      name: options.name ?? nameOf(),
      capacity: options.capacity ?? CAPACITY,
      workflows: code,
      spool: null,
      statusPort: null,
      version: readManifest().version,
      clock: systemClock({ hold: true }),
      random: systemRandom,
      ...defined({
        scripts,
        secrets: options.secrets,
        middleware: options.use,
      }),
      onLog: (grant, item, logged) => onLog?.(loggedBy(grant, item, logged)),
      onTrouble: (what) =>
        onFaultLine(
          what === null
            ? "the server is back"
            : `the server does not answer (${what}); the worker keeps its receipts and tries again`,
        ),
      onRegistered: (id) =>
        resolve({
          id,
          closed,
          async close(how = {}) {
            checkCloseOptions(how);
            await close(how.graceMs);
          },
          [Symbol.asyncDispose]: () => close(),
        }),
      onRefused: ({ status, message }) => {
        const code = status === 401 ? "unauthorised" : status === 403 ? "forbidden" : "invalid_input";
        refuse(new RondoError(reject(code, `the server refuses this worker: ${message}`)));
        void close(0);
      },
      onDrain: () => void close(),
      onDropped: (attempt, why) => onFaultLine(`the report of ${attempt} was refused: ${why.message}`),
      onBug: (thrown) => onStop(toError(thrown)),
    });
    worker.start().catch(refuse);
  });
};

interface Registering {
  readonly urls: readonly string[];
  readonly token: string | null;
  readonly onFaultLine: (line: string) => void;
}

/** Registers the definitions as soon as a server answers. */
async function registerAll(
  { urls, token, onFaultLine }: Registering,
  workflows: readonly HostedWorkflow[],
): Promise<void> {
  const backOff = new BackOff({ random: systemRandom });
  await using client = new RemoteRondo({ urls, ...(token === null ? {} : { token }) });
  for (let round = 0; ; round++) {
    try {
      return await registerOnce(client, workflows);
    } catch (thrown) {
      const isAway = thrown instanceof RondoError && ABSENT.includes(thrown.code);
      if (!isAway) throw thrown;
      if (round === 0) onFaultLine(`waiting for the server: ${thrown.message}`);
      await sleep(systemClock({ hold: true }), backOff.next());
    }
  }
}

/**
 * Registers the definitions of the workflows. A token for one project may not register definitions; the worker then uses the
 * definitions that the server has.
 */
async function registerOnce(client: RemoteRondo, workflows: readonly HostedWorkflow[]): Promise<void> {
  try {
    for (const workflow of workflows) await client.register(workflow);
  } catch (thrown) {
    if (!(thrown instanceof RondoError) || thrown.code !== "forbidden") throw thrown;
    const session = await client.requester.json<{ role?: string; project?: string | null }>("/v1/session");
    const isBound = typeof session.project === "string";
    if (!isBound || (session.role !== "worker" && session.role !== "admin")) throw thrown;
  }
}

function isWorkflow(part: ServedCode): part is HostedWorkflow {
  return "definition" in part;
}

function nameOf(): string {
  const plain = hostname()
    .replaceAll(/[^A-Za-z0-9_.-]/g, "-")
    .replace(/^[^A-Za-z0-9]+/, "");
  return `${plain === "" ? "worker" : plain.slice(0, 30)}-${process.pid}`;
}
