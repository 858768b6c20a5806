/** Where the server is, and telling it the definitions of the workflows that are served here. */

import { dirname } from "node:path";
import {
  type HttpAnswer,
  HttpConnection,
  type HttpConnectionOptions,
  type HttpRequest,
} from "../../net/http-connection.ts";
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
  /** Tried at once: the first that answers is used. */
  readonly addresses: readonly string[];
  readonly token: string | null;
}

const UNIX = "unix:";
/** How long a first answer may take, and a later one: a slow network must not be taken for a broken one for ever. */
const TIMEOUT = { minMs: 5_000, maxMs: 60_000 } as const;

/** The server's addresses and the files, from flags, environment and configuration. */
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

/** Tells a server of all of them; waits for one that is not there yet. False: it was given up. */
export async function registerDefinitions(
  { addresses, token }: ServerAddresses,
  workflows: readonly AnyWorkflow[],
  options: { readonly isOver: Promise<void>; readonly tell: (what: string) => void },
): Promise<boolean> {
  const backOff = new BackOff({ random: systemRandom });
  let isOver = false;
  const over = options.isOver.then(() => {
    isOver = true;
  });
  for (let round = 0; !isOver; round++) {
    const timeoutMs = backOffMs(round, TIMEOUT);
    const connections = addresses.map(
      (address) => new Connection({ address, ...(token === null ? {} : { token }) }, timeoutMs),
    );
    try {
      const kept = await Promise.any(connections.map((connection) => postAll(connection, workflows)));
      if (kept !== null)
        options.tell(`this token is of the project "${kept}": the server keeps the definitions that it has`);
      return true;
    } catch (thrown) {
      const errors = (thrown as AggregateError).errors as Error[];
      // A refusal would come again; a server that cannot be reached may be there later.
      const refusal = errors.find((error) => !(error instanceof HttpFault));
      if (refusal !== undefined) throw refusal;
      if (round === 0) options.tell(`waiting for the server: ${absence(addresses, errors)}`);
      // The timer keeps the process alive: nothing else does yet.
      await atMost(systemClock({ hold: true }), backOff.next(), over);
    } finally {
      for (const connection of connections) connection.close();
    }
  }
  return false;
}

/** Why no server answers, in the words of the first address. */
function absence([address = ""]: readonly string[], [error]: readonly Error[]): string {
  const isMissing = error instanceof HttpFault && error.code === "ENOENT";
  return isMissing
    ? `none works on ${dirname(address.slice(UNIX.length))} yet (rondo start)`
    : String(error?.message);
}

/** A connection whose answers have the same time limit. */
class Connection {
  readonly #connection: HttpConnection;
  readonly #timeoutMs: number;

  constructor(options: HttpConnectionOptions, timeoutMs: number) {
    this.#connection = new HttpConnection(options);
    this.#timeoutMs = timeoutMs;
  }

  get address(): string {
    return this.#connection.address;
  }

  send(request: HttpRequest): Promise<HttpAnswer> {
    return this.#connection.send({ ...request, timeoutMs: this.#timeoutMs });
  }

  close(): void {
    this.#connection.close();
  }
}

/** Stores them; definitions are of all projects, so who is bound to one stores none, and that project is given. */
async function postAll(connection: Connection, workflows: readonly AnyWorkflow[]): Promise<string | null> {
  try {
    for (const { definition } of workflows) await post(connection, definition);
    return null;
  } catch (thrown) {
    if (!(thrown instanceof RondoError) || thrown.code !== "forbidden") throw thrown;
    const { status, text } = await connection.send({ method: "GET", path: "/v1/session" });
    const { role, project } = (status === 200 ? jsonFields(text) : null) ?? {};
    if (typeof project === "string" && (role === "worker" || role === "admin")) return project;
    throw thrown;
  }
}

async function post(connection: Connection, definition: unknown): Promise<void> {
  const body = JSON.stringify(definition);
  const { status, text } = await connection.send({ method: "POST", path: "/v1/workflows", body });
  if (status >= 200 && status < 300) return;
  const { code, detail, hint } = jsonFields(text) ?? {};
  // The server starts or stops, or something in between answers for it: as if it were not there. The same goes for a
  // request that was damaged on its way.
  const isProblem = typeof code === "string" && typeof detail === "string";
  if (status >= 500 || status === 429 || code === "invalid_json" || !isProblem)
    throw new HttpFault(isProblem ? detail : `${connection.address} answers ${status}`, "not_ready");
  throw new RondoError(reject(code as RejectionCode, detail, typeof hint === "string" ? { hint } : {}));
}
