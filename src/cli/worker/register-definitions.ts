/** Finds the server of a worker, and registers the definitions of the worker's workflows with it. */
import { dirname } from "node:path";
import { HttpConnection } from "../../net/http-connection.ts";
import { HttpFault } from "../../net/http-fault.ts";
import type { AnyWorkflow } from "../../sdk/workflow.ts";
import { BackOff, backOffMs } from "../../std/back-off.ts";
import { systemClock } from "../../std/clock.ts";
import { jsonFields } from "../../std/decode.ts";
import { systemRandom } from "../../std/random.ts";
import { type RejectionCode, RondoError, reject } from "../../std/rejection.ts";
import { atMost } from "../../std/within.ts";
import { futureSocketAddress, readConfig } from "../server/find-server.ts";
import type { WorkerFlags } from "./worker-flags.ts";

export interface ServerAddresses {
  /** The addresses of the server. All are tried at the same time, and the first one that answers is used. */
  readonly addresses: readonly string[];
  readonly token: string | null;
}

const UNIX = "unix:";
/** The time limits for the first answer and for later ones. They grow, so that a slow network is not taken for a broken one for ever. */
const TIMEOUT = { minMs: 5_000, maxMs: 60_000 } as const;

/** Reads the server's addresses and the files from flags, environment and configuration. */
export async function findAddresses(
  files: readonly string[],
  { socket, url, token, store }: WorkerFlags,
): Promise<ServerAddresses & { readonly wanted: readonly string[] }> {
  const [first, ...others] = (url ?? "").split(",").map((one) => one.trim());
  const named = {
    ...(first === undefined || first === "" ? {} : { url: first }),
    ...(token === undefined ? {} : { token }),
    ...(store === undefined ? {} : { store }),
    ...(files.length === 0 ? {} : { files }),
  };
  const { config } = await readConfig(named);
  const addresses =
    socket !== undefined
      ? [`${UNIX}${socket}`]
      : config.url === null
        ? [await futureSocketAddress(config.store)]
        : [...config.url.split(",").map((one) => one.trim()), ...others];
  return { addresses, token: config.token, wanted: config.files };
}

/** Registers the definitions, and waits for a server if none answers. Returns false if the worker was stopped during that time. */
export async function registerDefinitions(
  { addresses, token }: ServerAddresses,
  workflows: readonly AnyWorkflow[],
  options: { readonly isOver: Promise<void>; readonly note: (what: string) => void },
): Promise<boolean> {
  const backOff = new BackOff({ random: systemRandom });
  let isOver = false;
  const over = options.isOver.then(() => {
    isOver = true;
  });
  for (let round = 0; !isOver; round++) {
    const timeoutMs = backOffMs(round, TIMEOUT);
    const connections = addresses.map(
      (address) => new HttpConnection({ address, ...(token === null ? {} : { token }) }),
    );
    try {
      const kept = await Promise.any(
        connections.map((connection) => postAll(connection, workflows, timeoutMs)),
      );
      if (kept !== null)
        options.note(
          `this token is bound to the project "${kept}" and cannot register definitions: the server uses the definitions that it has`,
        );
      return true;
    } catch (thrown) {
      const errors = (thrown as AggregateError).errors as Error[];
      // A refusal is thrown, because it would come again. A server that cannot be reached may answer later, so the request is repeated.
      const refusal = errors.find((error) => !(error instanceof HttpFault));
      if (refusal !== undefined) throw refusal;
      if (round === 0) options.note(`waiting for the server: ${absence(addresses, errors)}`);
      // This timer keeps the process alive; the worker has nothing else yet that would.
      await atMost(systemClock({ hold: true }), backOff.next(), over);
    } finally {
      for (const connection of connections) connection.close();
    }
  }
  return false;
}

/** Explains why no server answers. The explanation is about the first address. */
function absence([address = ""]: readonly string[], [error]: readonly Error[]): string {
  const isMissing = error instanceof HttpFault && error.code === "ENOENT";
  return isMissing
    ? `no server works on ${dirname(address.slice(UNIX.length))} yet (start one: rondo start)`
    : String(error?.message);
}

/**
 * Stores the definitions at the server. A token that is bound to a project may not do that; in that case returns the name of the project.
 */
async function postAll(
  connection: HttpConnection,
  workflows: readonly AnyWorkflow[],
  timeoutMs: number,
): Promise<string | null> {
  try {
    for (const { definition } of workflows) await post(connection, definition, timeoutMs);
    return null;
  } catch (thrown) {
    if (!(thrown instanceof RondoError) || thrown.code !== "forbidden") throw thrown;
    const { status, text } = await connection.send({ method: "GET", path: "/v1/session", timeoutMs });
    const { role, project } = (status === 200 ? jsonFields(text) : null) ?? {};
    if (typeof project === "string" && (role === "worker" || role === "admin")) return project;
    throw thrown;
  }
}

async function post(connection: HttpConnection, definition: unknown, timeoutMs: number): Promise<void> {
  const body = JSON.stringify(definition);
  const { status, text } = await connection.send({ method: "POST", path: "/v1/workflows", body, timeoutMs });
  if (status >= 200 && status < 300) return;
  const { code, detail, hint } = jsonFields(text) ?? {};
  // A server that starts or stops, and a proxy in between, count as unreachable. So does a request that was damaged on its way.
  const isProblem = typeof code === "string" && typeof detail === "string";
  if (status >= 500 || status === 429 || code === "invalid_json" || !isProblem)
    throw new HttpFault(isProblem ? detail : `${connection.address} answers ${status}`, "not_ready");
  throw new RondoError(reject(code as RejectionCode, detail, typeof hint === "string" ? { hint } : {}));
}
