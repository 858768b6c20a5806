/** Serves routes of the table over real HTTP, on a port of its own, without access control: for tests of workers. */
import { once } from "node:events";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { anybody } from "../../src/server/auth/access.ts";
import { checkPart } from "../../src/server/http/check-part.ts";
import { readJsonBody } from "../../src/server/http/read-body.ts";
import { sendAnswer, sendProblem } from "../../src/server/http/send-answer.ts";
import type { Ask, Route } from "../../src/server/route.ts";
import { isRejection, reject } from "../../src/std/rejection.ts";

export interface ServedRoutes {
  readonly url: string;
  readonly server: Server;
  /** Requests so far, by method and path of the table. */
  readonly counts: Map<string, number>;
  close(): Promise<void>;
}

/** Starts to serve. */
export async function serveRoutes(
  routes: readonly Route[],
  where: { port?: number; host?: string } = {},
): Promise<ServedRoutes> {
  const counts = new Map<string, number>();
  const open = new Set<AbortController>();
  const server = createServer((incoming, outgoing) => {
    answerRoutes(routes, incoming, outgoing, { counts, open }).catch((thrown: unknown) => {
      sendProblem(outgoing, { code: "internal", message: String(thrown) });
    });
  });
  server.listen(where.port ?? 0, where.host ?? "127.0.0.1");
  await once(server, "listening");
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    server,
    counts,
    async close() {
      for (const abort of open) abort.abort();
      server.close();
      server.closeAllConnections();
      await once(server, "close");
    },
  };
}

/** Answers one request by a table of routes. */
export async function answerRoutes(
  routes: readonly Route[],
  incoming: IncomingMessage,
  outgoing: ServerResponse,
  { counts, open }: { counts: Map<string, number>; open: Set<AbortController> },
): Promise<void> {
  const url = new URL(incoming.url ?? "/", "http://localhost");
  if (url.pathname === "/healthz") {
    sendAnswer(outgoing, { kind: "json", status: 200, body: { ok: true } }, undefined);
    return;
  }
  const found = find(routes, incoming.method ?? "GET", url.pathname);
  if (found === null) {
    sendProblem(outgoing, reject("not_found", `there is no route ${url.pathname}`));
    return;
  }
  const { route, params } = found;
  const name = `${route.method} ${route.path}`;
  counts.set(name, (counts.get(name) ?? 0) + 1);
  const sent = await readJsonBody(incoming, {
    bytesMax: route.bodyBytesMax ?? 4_194_304,
    keysMax: route.bodyKeysMax ?? 200_000,
  });
  if (isRejection(sent)) return void sendProblem(outgoing, sent);
  const parts: Record<string, unknown> = { params, query: Object.fromEntries(url.searchParams) };
  for (const part of ["params", "query", "body"] as const) {
    const schema = route[part];
    if (schema === undefined) continue;
    const value = part === "body" ? sent.value : parts[part];
    const checked = checkPart(schema, value, part === "params" ? "path" : part);
    if (isRejection(checked)) return void sendProblem(outgoing, checked);
    parts[part] = checked.value;
  }
  const abort = new AbortController();
  open.add(abort);
  outgoing.once("close", () => {
    open.delete(abort);
    abort.abort();
  });
  const bearer = /^Bearer (.+)$/.exec(incoming.headers.authorization ?? "")?.[1] ?? null;
  const header = (name: string) => incoming.headers[name];
  const caller = anybody(incoming);
  const ask = {
    ...parts,
    caller,
    bearer,
    header,
    incoming,
    outgoing,
    signal: abort.signal,
    target: () => {},
  };
  const given = await route.handle(ask as unknown as Ask);
  if ("code" in given) sendProblem(outgoing, given);
  else if (given.kind !== "streamed") sendAnswer(outgoing, given, undefined);
}

function find(
  routes: readonly Route[],
  method: string,
  path: string,
): { route: Route; params: Record<string, string> } | null {
  const given = path.split("/");
  for (const route of routes) {
    const wanted = route.path.split("/");
    if (route.method.toUpperCase() !== method || wanted.length !== given.length) continue;
    if (!wanted.every((part, i) => part.startsWith("{") || part === given[i])) continue;
    const params = wanted.flatMap((part, i) =>
      part.startsWith("{") ? [[part.slice(1, -1), decodeURIComponent(given[i] as string)]] : [],
    );
    return { route, params: Object.fromEntries(params) as Record<string, string> };
  }
  return null;
}
