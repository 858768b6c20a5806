/** Finds the server of a command: the one of --url or RONDO_URL, or the one that has the data directory open. */
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { RemoteRondo } from "../../client/connect.ts";
import type { Fetch } from "../../client/transport.ts";
import { type LoadedConfig, loadConfig } from "../../config/load-config.ts";
import { HttpConnection } from "../../net/http-connection.ts";
import { HttpFault } from "../../net/http-fault.ts";
import { assert } from "../../std/assert.ts";
import { systemClock } from "../../std/clock.ts";
import { withoutPassword } from "../../std/hide-passwords.ts";
import { RondoError } from "../../std/rejection.ts";
import { sleep } from "../../std/within.ts";
import { CliError } from "../cli-error.ts";
import { EXIT } from "../exit-code.ts";
import { fetchOver } from "./fetch-over-http.ts";
import { outlastAbsence } from "./outlast-absence.ts";

/** The flags of a verb that were given: flags with a text, and switches. The table in verbs.ts explains each flag. */
export type Flags<Text extends string, Switch extends string = never> = {
  readonly [name in Text]?: string;
} & { readonly [name in Switch]?: boolean };

/** Flags of every command that uses a server. */
export type ServerFlags = Flags<"url" | "token" | "store", "json">;

export interface Server {
  /** The server's name in messages. */
  readonly name: string;
  /** The server's address: `unix:<path>` or an http(s) URL; the first one if there are several. */
  readonly address: string;
  readonly rondo: RemoteRondo;
}

/** The error that no server has the data directory open. The command was not executed. */
export class NoServer extends CliError {
  override name = "NoServer";
}

/** The name of the socket file in a data directory. */
export const SOCKET = "rondo.sock";

/** Loads the effective configuration for these flags. */
export function readConfig(flags: Readonly<Record<string, unknown>>): Promise<LoadedConfig> {
  return loadConfig({
    flags,
    env: process.env,
    cwd: process.cwd(),
    loadModule: async (path) => (await import("../load/load-module.ts")).loadLightModule(path),
  });
}

/** Runs `use` with a client of the server. With `say`, requests are retried while the server does not answer. */
export async function withServer<T>(
  flags: ServerFlags,
  use: (server: Server) => Promise<T>,
  { say }: { readonly say?: (line: string) => void } = {},
): Promise<T> {
  const { config } = await readConfig({ ...flags });
  const addresses = config.url?.split(",") ?? [await socketAddress(config.store)];
  const address = addresses[0] as string;
  const connections = addresses.map((one) => new HttpConnection({ address: one }));
  const name = config.url === null ? config.store : addresses.join(" or ");
  const fetch = fetchOverAll(connections);
  // If there are several nodes and one does not answer, another node is asked at once.
  const isPatient = say !== undefined && addresses.length === 1;
  try {
    const rondo = new RemoteRondo({
      urls: addresses,
      fetch: isPatient ? outlastAbsence(fetch, { name, say }) : fetch,
      ...(config.token === null ? {} : { token: config.token }),
    });
    return await use({ name, address, rondo });
  } catch (thrown) {
    throw explain(thrown, name, { isSocket: config.url === null, hasToken: config.token !== null });
  } finally {
    for (const connection of connections) connection.close();
  }
}

/** Sends each request over the connection whose address is the beginning of its URL. */
function fetchOverAll(connections: readonly HttpConnection[]): Fetch {
  const fetches = connections.map((one) => ({ begin: `${one.address}/`, fetch: fetchOver(one) }));
  return (url, request) => {
    const found = fetches.find(({ begin }) => url.startsWith(begin));
    assert(found !== undefined, "the request is for a server that this client was not given");
    return found.fetch(url, request);
  };
}

/** Returns the directory of a store that is in files; null for other stores. */
export function directoryOf(store: string): string | null {
  return store.startsWith("file:") && store.length > 5 ? store.slice(5).replace(/^\/\/(?=\/)/, "") : null;
}

/** Whether the store's directory has a socket file. The server of the socket may run, or may have been killed. */
export function hasSocket(store: string): boolean {
  const directory = directoryOf(store);
  return directory !== null && existsSync(join(directory, SOCKET));
}

/** Returns the address of a store's socket. If there is no socket, throws an error that says what to do. */
export async function socketAddress(store: string): Promise<string> {
  const address = await futureSocketAddress(store);
  if (!hasSocket(store)) throw noServer(store);
  return address;
}

/** Returns the address of the socket of a store, whether or not its server runs already. */
export async function futureSocketAddress(store: string): Promise<string> {
  const directory = directoryOf(store);
  if (directory === null)
    throw new CliError(
      EXIT.unreachable,
      `the store ${withoutPassword(store)} is not a directory, so its server cannot be found by a socket`,
      ["name the URL of any node: --url http://<host>:<port>, or RONDO_URL"],
    );
  const { silent } = await awaitOwner(directory);
  if (silent !== null)
    throw new CliError(EXIT.unreachable, `process ${silent} has ${store} open, but accepts no commands`, [
      "the process is a program with openRondo, or it hangs: use that program, or wait for its end",
    ]);
  return `unix:${join(directory, SOCKET)}`;
}

function noServer(store: string, cause?: unknown): NoServer {
  return new NoServer(
    EXIT.unreachable,
    `no server works on ${store}`,
    [
      `start one: rondo start${store === "file:.rondo" ? "" : ` --store ${store}`}`,
      "if you have just started a server, repeat the command when it is ready",
      "or name a server that runs elsewhere: --url http://<host>:<port>, or RONDO_URL",
    ],
    { cause },
  );
}

/** Explains a failed request. If no process listens at the socket, the server was killed. */
function explain(
  thrown: unknown,
  name: string,
  { isSocket, hasToken }: { isSocket: boolean; hasToken: boolean },
): unknown {
  if (!(thrown instanceof RondoError)) return thrown;
  if (thrown.code === "unauthorised") return explainUnauthorised(thrown, name, hasToken);
  if (!(thrown.cause instanceof HttpFault)) return thrown;
  const { code } = thrown.cause;
  if (isSocket && (code === "ECONNREFUSED" || code === "ENOENT")) return noServer(name, thrown);
  return new CliError(
    EXIT.unreachable,
    `cannot reach ${name}: ${code}`,
    ["check whether the server is running; to start one: rondo start"],
    { cause: thrown },
  );
}

function explainUnauthorised(thrown: RondoError, name: string, hasToken: boolean): CliError {
  const make = "make a token on the server's machine: rondo token create";
  return hasToken
    ? new CliError(
        EXIT.unauthorised,
        `${name} does not know this token, or the token has expired`,
        [
          "check --token and RONDO_TOKEN",
          `on the server's machine, list the tokens: rondo token list; or ${make}`,
        ],
        { cause: thrown },
      )
    : new CliError(
        EXIT.unauthorised,
        `${name} needs a token`,
        ["give a token: --token, or RONDO_TOKEN", make],
        { cause: thrown },
      );
}

const POLL_MS = 25;
/** How long a process that has opened the directory may take until it listens, even on a busy machine. */
const PATIENCE_MS = 3_000;

/** Waits until the process that has the directory open listens. Returns its process id if it runs but does not listen. */
export async function awaitOwner(directory: string): Promise<{ readonly silent: number | null }> {
  for (let waitedMs = 0; ; waitedMs += POLL_MS) {
    const silent = silentOwner(directory);
    if (silent === null || waitedMs >= PATIENCE_MS) return { silent };
    await sleep(systemClock({ hold: true }), POLL_MS);
  }
}

function silentOwner(directory: string): number | null {
  try {
    const { pid, listening } = JSON.parse(readFileSync(join(directory, "owner.json"), "utf8"));
    if (!Number.isInteger(pid) || listening !== undefined) return null;
    process.kill(pid, 0);
    return pid;
  } catch {
    // No process has the directory open, or that process was killed.
    return null;
  }
}
