/**
 * Which server a command talks to: the one that --url or RONDO_URL names (or any of several, with commas between them),
 * else the one that works on the data directory (--store, RONDO_STORE, the configuration, `.rondo`), through the socket
 * in it.
 */

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

/** Flags of every command that talks to a server. */
export interface ServerFlags {
  readonly url?: string;
  readonly token?: string;
  readonly store?: string;
  /** Print JSON. */
  readonly json?: boolean;
}

export interface Server {
  /** How it is called in messages. */
  readonly name: string;
  /** `unix:<path>` or an http(s) address; the first, if there are several. */
  readonly address: string;
  readonly rondo: RemoteRondo;
}

/** Nobody works on the data directory. Nothing was done yet. */
export class NoServer extends CliError {
  override name = "NoServer";
}

/** The name of the socket in a data directory. */
export const SOCKET = "rondo.sock";

/** The effective configuration for these flags. */
export function readConfig(flags: Readonly<Record<string, unknown>>): Promise<LoadedConfig> {
  return loadConfig({
    flags,
    env: process.env,
    cwd: process.cwd(),
    loadModule: async (path) => (await import("../load/load-module.ts")).loadLightModule(path),
  });
}

/**
 * Talks to the server; what fails because nobody answers is told with the next step. `say` is for verbs that outlast a
 * server's absence: it gets a line when that begins, and one when it is over.
 */
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
  // Of several nodes another is asked at once, rather than waiting for the one that is away.
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

/** Sends each request over the connection that its URL begins with. */
function fetchOverAll(connections: readonly HttpConnection[]): Fetch {
  const fetches = connections.map((one) => ({ begin: `${one.address}/`, fetch: fetchOver(one) }));
  return (url, request) => {
    const found = fetches.find(({ begin }) => url.startsWith(begin));
    assert(found !== undefined, "a client asks none but the servers that it was given");
    return found.fetch(url, request);
  };
}

/** The directory of a store of files; null if it is another kind. */
export function directoryOf(store: string): string | null {
  return store.startsWith("file:") && store.length > 5 ? store.slice(5).replace(/^\/\/(?=\/)/, "") : null;
}

/** Whether a server works on the store, or was killed there. */
export function hasSocket(store: string): boolean {
  const directory = directoryOf(store);
  return directory !== null && existsSync(join(directory, SOCKET));
}

/** The address of the socket in the directory of a store; throws with the next step if there is none. */
export async function socketAddress(store: string): Promise<string> {
  const address = await futureSocketAddress(store);
  if (!hasSocket(store)) throw noServer(store);
  return address;
}

/** The address of the socket of a store whose server may not be there yet. */
export async function futureSocketAddress(store: string): Promise<string> {
  const directory = directoryOf(store);
  if (directory === null)
    throw new CliError(
      EXIT.unreachable,
      `the store ${withoutPassword(store)} has no socket to find its server by`,
      ["name the server: --url http://127.0.0.1:7777, or RONDO_URL"],
    );
  const { silent } = await awaitOwner(directory);
  if (silent !== null)
    throw new CliError(EXIT.unreachable, `process ${silent} works on ${store}, and takes no commands`, [
      "it is a program with openRondo, or stands still: ask that program, or wait for its end",
    ]);
  return `unix:${join(directory, SOCKET)}`;
}

function noServer(store: string, cause?: unknown): NoServer {
  return new NoServer(
    EXIT.unreachable,
    `no server works on ${store}`,
    [
      `start one: rondo start${store === "file:.rondo" ? "" : ` --store ${store}`}`,
      "if you have just started one, or a run: ask again once it says so",
      "or name one that runs elsewhere: --url http://<host>:<port>, or RONDO_URL",
    ],
    { cause },
  );
}

/** A socket that nobody listens at is what a killed server leaves behind. */
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
    ["is the server running? Start one: rondo start"],
    { cause: thrown },
  );
}

function explainUnauthorised(thrown: RondoError, name: string, hasToken: boolean): CliError {
  const make = "one is made where the server runs: rondo token create";
  return hasToken
    ? new CliError(
        EXIT.unauthorised,
        `${name} does not know this token, or it has expired`,
        ["check --token and RONDO_TOKEN", `where the server runs, see: rondo token list; ${make}`],
        { cause: thrown },
      )
    : new CliError(
        EXIT.unauthorised,
        `${name} does not know who asks`,
        ["give a token: --token, or RONDO_TOKEN", make],
        { cause: thrown },
      );
}

const LOOK_MS = 25;
/** By then a run has its socket, on a machine with much to do too. */
const PATIENCE_MS = 3_000;

/** Resolves when the directory's owner listens, or there is none: with the owner's process if it works without listening. */
export async function awaitOwner(directory: string): Promise<{ readonly silent: number | null }> {
  for (let waitedMs = 0; ; waitedMs += LOOK_MS) {
    const silent = silentOwner(directory);
    if (silent === null || waitedMs >= PATIENCE_MS) return { silent };
    await sleep(systemClock({ hold: true }), LOOK_MS);
  }
}

function silentOwner(directory: string): number | null {
  try {
    const { pid, listening } = JSON.parse(readFileSync(join(directory, "owner.json"), "utf8"));
    if (!Number.isInteger(pid) || listening !== undefined) return null;
    process.kill(pid, 0);
    return pid;
  } catch {
    // Nobody is there, or somebody who was killed.
    return null;
  }
}
