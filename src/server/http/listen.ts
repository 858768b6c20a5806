/** Listens on a TCP address, and on a socket in the store's directory that only its owner can open. */
import { chmodSync, rmSync } from "node:fs";
import { createServer, type RequestListener, type Server } from "node:http";
import type { AddressInfo, Socket } from "node:net";
import { join, relative, resolve } from "node:path";
import { isLoopback } from "../../net/hosts.ts";
import { RondoError, reject } from "../../std/rejection.ts";
import type { ApiLimits } from "../parts.ts";
import { PROBLEM_TYPE, type ProblemCode, problemOf } from "./problem.ts";

const HEADER_BYTES_MAX = 16_384;
const HEADERS_MAX = 100;
const KEEP_ALIVE_MS = 65_000;
/** The longest path of a unix socket, in bytes. */
const SOCKET_PATH_MAX = 103;
const SOCKET_NAME = "rondo.sock";
const OTHER_PORT = "choose another port, or 0 for any: --port, or `server: { port }` of openRondo";

/** The open connections of each HTTP server. */
const connections = new WeakMap<Server, Set<Socket>>();

/** Makes an HTTP server with the limits of the API. The server does not listen yet. */
export function makeServer(limits: ApiLimits, listener: RequestListener): Server {
  const server = createServer(
    {
      // Node refuses a header time limit above the request time limit.
      headersTimeout: Math.min(limits.headerMs, limits.requestMs),
      requestTimeout: limits.requestMs,
      connectionsCheckingInterval: Math.max(50, Math.min(limits.headerMs, limits.requestMs) / 4),
      keepAliveTimeout: KEEP_ALIVE_MS,
      maxHeaderSize: HEADER_BYTES_MAX,
    },
    listener,
  );
  server.maxHeadersCount = HEADERS_MAX;
  server.maxConnections = limits.connections;
  server.on("clientError", answerClientError);
  const open = new Set<Socket>();
  connections.set(server, open);
  server.on("connection", (socket) => {
    open.add(socket);
    socket.once("close", () => open.delete(socket));
  });
  return server;
}

/** Closes idle connections. Node does not count a connection without a first request as idle. */
export function endIdle(server: Server): void {
  server.closeIdleConnections();
  for (const socket of connections.get(server) ?? []) if (socket.bytesRead === 0) socket.destroy();
}

/** Listens on TCP. Returns the port. */
export async function listenTcp(server: Server, host: string, port: number): Promise<number> {
  try {
    await listening(server, () => server.listen({ host, port }));
  } catch (thrown) {
    throw explain(thrown as NodeJS.ErrnoException, `${host}:${port}`);
  }
  return (server.address() as AddressInfo).port;
}

/** Listens on the unix socket in the store's directory. Returns the socket's path, or null if the path is too long. */
export async function listenSocket(server: Server, directory: string): Promise<string | null> {
  const path = socketPath(directory);
  if (path === null) return null;
  // This process holds the directory's lock, so an existing socket was left behind by a process that ended.
  rmSync(path, { force: true });
  const mask = process.umask(0o177);
  try {
    await listening(server, () => {
      server.listen({ path });
      process.umask(mask);
    });
  } catch (thrown) {
    throw explain(thrown as NodeJS.ErrnoException, path);
  } finally {
    process.umask(mask);
  }
  chmodSync(path, 0o600);
  return resolve(path);
}

/**
 * Returns the path of the unix socket in a directory, absolute or relative, whichever is shorter; null if it is too long for the system.
 */
export function socketPath(directory: string): string | null {
  const absolute = resolve(directory, SOCKET_NAME);
  const short = relative(process.cwd(), absolute);
  const path = short.length < absolute.length ? join(".", short) : absolute;
  return Buffer.byteLength(path) > SOCKET_PATH_MAX ? null : path;
}

function listening(server: Server, listen: () => void): Promise<void> {
  return new Promise((done, fail) => {
    server.once("error", fail);
    server.once("listening", () => {
      server.off("error", fail);
      done();
    });
    listen();
  });
}

function explain(error: NodeJS.ErrnoException, where: string): Error {
  const wrong = (message: string, hint: string): RondoError =>
    new RondoError(reject("conflict", message, { hint }), { cause: error });
  switch (error.code) {
    case "EADDRINUSE":
      return wrong(`${where} is in use by another process`, OTHER_PORT);
    case "EACCES":
      return wrong(`listening on ${where} is not allowed`, "choose a port above 1023");
    case "EADDRNOTAVAIL":
    case "ENOTFOUND":
      return wrong(
        `this machine has no address ${where}`,
        "choose another host: --host, or `server: { host }` of openRondo",
      );
    default:
      return error;
  }
}

/** The refusals for errors that happen before a request could be read, by the error code of Node. */
const CLIENT_ERRORS: Readonly<Record<string, readonly [code: ProblemCode, message: string]>> = {
  HPE_HEADER_OVERFLOW: ["headers_too_large", `the headers are larger than ${HEADER_BYTES_MAX} bytes`],
  ERR_HTTP_REQUEST_TIMEOUT: ["request_timeout", "the request was not complete in time"],
};

function answerClientError(error: NodeJS.ErrnoException, socket: Socket): void {
  if (error.code === "ECONNRESET" || !socket.writable) {
    socket.destroy();
    return;
  }
  const [code, message] = CLIENT_ERRORS[error.code ?? ""] ?? ["bad_request", "the request is not valid HTTP"];
  const problem = problemOf({ code, message });
  const body = JSON.stringify(problem);
  socket.end(
    `HTTP/1.1 ${problem.status} ${problem.title}\r\nConnection: close\r\nContent-Type: ${PROBLEM_TYPE}\r\nContent-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`,
    () => socket.destroy(),
  );
}

/** The URL of a server on this host and port, seen from this machine. */
export function urlOf(host: string, port: number): string {
  const isAny = host === "0.0.0.0" || host === "::" || host === "";
  const name = isAny ? "127.0.0.1" : host.includes(":") && !host.startsWith("[") ? `[${host}]` : host;
  return `http://${isLoopback(name) && name === "::1" ? "[::1]" : name}:${port}`;
}
