// The application's server: it starts chats and gives the page a token for its chat. Rondo runs in the same program, at another origin.
import { randomUUID } from "node:crypto";
import { createServer, type IncomingMessage } from "node:http";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";
import { fileURLToPath } from "node:url";
import { openRondo, type Rondo } from "rondo";
import { build } from "vite";
import { chat } from "./agent.ts";

const file = (path: string): string => fileURLToPath(new URL(path, import.meta.url));

/** The script of the page with `rondo/client`. A project with its own bundler needs no alias. */
async function bundlePage(): Promise<string> {
  const built = await build({
    configFile: false,
    logLevel: "error",
    resolve: { alias: { "rondo/client": file("../../dist/src/client.js") } },
    build: { write: false, lib: { entry: file("page.mjs"), formats: ["es"] } },
  });
  const [{ output }] = built as unknown as [{ output: [{ code: string }] }];
  return output[0].code;
}

const PAGE = `<!doctype html><html lang="en"><meta charset="utf-8"><title>Chat</title><h1>Chat</h1>
<form><label>Question <input name="question" value="Where is my order?"></label> <button>Ask</button></form>
<p id="words" aria-live="polite"></p>
<p id="approval" hidden><span id="asks"></span> <button id="approve">Approve</button> <button id="reject">Reject</button></p>
<p id="answer"></p><script type="module" src="/page.js"></script></html>`;

const script = await bundlePage();
const server = createServer((request, response) => {
  answer(request).then(
    ([type, body]) => response.setHeader("content-type", type).end(body),
    (error: unknown) => response.writeHead(500).end(String(error)),
  );
});
/** Listens, and opens Rondo for pages of that address. Requests that come before it is open wait for it. */
async function open(): Promise<Rondo> {
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    server.listen(Number(process.env["PORT"] ?? 8080), "127.0.0.1", resolve);
  });
  const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const rondo = await openRondo({ store: "memory:", server: { port: 0, cors: { origins: [origin] } } });
  rondo.serve(chat);
  console.log(`the page is at ${origin}, the dashboard at ${rondo.url}`);
  return rondo;
}

const opened = open();

async function answer(request: IncomingMessage): Promise<[type: string, body: string]> {
  if (request.url === "/page.js") return ["text/javascript", script];
  if (request.method !== "POST") return ["text/html", PAGE];
  // Here the application checks who asks.
  const input = JSON.parse(await text(request)) as { question: string };
  const rondo = await opened;
  const { id } = await rondo.start(chat, input, { id: `chat-${randomUUID()}` });
  const { token } = await rondo.tokenFor(id, { scopes: ["read", "signal"], expires: "1h" });
  return ["application/json", JSON.stringify({ id, token, url: rondo.url })];
}

for (const signal of ["SIGINT", "SIGTERM"] as const)
  process.once(signal, () => {
    server.close();
    server.closeAllConnections();
    void opened.then((rondo) => rondo.close());
  });
