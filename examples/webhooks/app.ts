// An application that takes webhooks of a shop. Each change of a customer is an event; a customer is synchronised once, after the changes
// have stopped for a while. Webhooks are signed (Standard Webhooks), and a repeated one counts once.
import { createHmac, timingSafeEqual } from "node:crypto";
import { createServer, type IncomingMessage } from "node:http";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";
import { event, on, openRondo, workflow } from "rondo";

const SECRET = "an-example-secret";

const changed = event<{ customer: string; field: string }>("customer/changed");

const synced: string[] = [];
const sync = workflow<{ customer: string; field: string }>({
  name: "sync",
  on: on(changed, { key: "/customer", debounce: { quiet: "500ms", max: "1m" } }),
}).phase("sync", {
  process: ({ input }) => void synced.push(`${input.customer} (last change: ${input.field})`),
});

await using rondo = await openRondo({ store: "memory:" });
rondo.serve(sync);

const server = createServer((request, response) => {
  receive(request).then(
    (status) => response.writeHead(status).end(),
    () => response.writeHead(500).end(),
  );
});

/** Answers 202 when the event is durable. The sender repeats a webhook that is not answered. */
async function receive(request: IncomingMessage): Promise<number> {
  const id = String(request.headers["webhook-id"]);
  const body = await text(request);
  const given = Buffer.from(String(request.headers["webhook-signature"]));
  const wanted = Buffer.from(signature(id, String(request.headers["webhook-timestamp"]), body));
  if (given.length !== wanted.length || !timingSafeEqual(given, wanted)) return 401;
  await rondo.send(changed(JSON.parse(body) as { customer: string; field: string }, { id }));
  return 202;
}

function signature(id: string, at: string, body: string): string {
  return `v1,${createHmac("sha256", SECRET).update(`${id}.${at}.${body}`).digest("base64")}`;
}

// The rest plays the part of the shop, which sends webhooks to this program.
await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
const { port } = server.address() as AddressInfo;

async function hook(id: string, customer: string, field: string, sign = signature): Promise<number> {
  const body = JSON.stringify({ customer, field });
  const at = String(Math.floor(Date.now() / 1_000));
  const headers = { "webhook-id": id, "webhook-timestamp": at, "webhook-signature": sign(id, at, body) };
  return (await fetch(`http://127.0.0.1:${port}/shop`, { method: "POST", headers, body })).status;
}

console.log("forged:", await hook("0", "eve", "name", () => "v1,forged"));
for (const [i, field] of ["name", "street", "city"].entries()) await hook(`ada-${i}`, "ada", field);
console.log("repeated:", await hook("ada-2", "ada", "city"));
await hook("bob-0", "bob", "email");
while (synced.length < 2) await new Promise((resolve) => setTimeout(resolve, 20));
console.log(synced.toSorted().join("\n"));
server.close();
