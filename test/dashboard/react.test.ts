// rondo/react in Chromium: pages of another origin, bundled by vite, with real React in StrictMode.
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";
import type { Page } from "playwright-core";
import { workflow } from "rondo";
import { build } from "vite";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { RondoServer } from "../../src/server/serve.ts";
import { hasBrowser, openPage, serve } from "../fixtures/dashboard/browser-fixture.ts";
import { temporaryDirectory } from "../fixtures/temporary-directory-fixture.ts";
import { until } from "../fixtures/until.ts";

const source = (path: string): string => fileURLToPath(new URL(`../../${path}`, import.meta.url));

const order = workflow<{ item: string }>({ name: "order" })
  .waitFor("approved")
  .phase("ship", { process: ({ input }) => `${input.item} is on its way` })
  .returns(({ phases }) => phases.ship.first());

let isFirst = true;
/** Its first try fails after two words; the second one writes them all. */
const writer = workflow({ name: "writer" })
  .phase("write", {
    async process({ stream, publish }) {
      const out = stream("words");
      publish({ tries: isFirst ? 1 : 2 });
      await out.write("old ");
      await out.write("words ");
      if (isFirst) {
        isFirst = false;
        throw new Error("once");
      }
      await out.write("and new ones");
      out.end();
    },
    retry: { attempts: 2, min: "10ms" },
  })
  .waitFor("read");

/** Bundles a file as a page would. */
async function bundle(entry: string, external: readonly (string | RegExp)[] = []): Promise<string> {
  const built = await build({
    configFile: false,
    logLevel: "error",
    define: { "process.env.NODE_ENV": '"development"' },
    resolve: { alias: { "rondo/react": source("src/react.ts") } },
    build: {
      write: false,
      lib: { entry: source(entry), formats: ["es"] },
      rolldownOptions: { external: [...external] },
    },
  });
  const [{ output }] = built as unknown as [{ output: [{ code: string }] }];
  return output[0].code;
}

/** Serves a page with a script, at an origin of its own. */
async function servePage(script: string): Promise<{ url: string; close: () => void }> {
  const server = createServer((request, response) => {
    const isScript = request.url === "/page.js";
    response.setHeader("content-type", isScript ? "text/javascript" : "text/html");
    response.end(
      isScript
        ? script
        : `<!doctype html><div id="root"></div><script type="module" src="/page.js"></script>`,
    );
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, close: () => server.close() };
}

/** The number of streams that are open at a server. */
async function streamsOf({ url }: RondoServer): Promise<number> {
  const text = await (await fetch(`${url}/metrics`)).text();
  return Number(/^rondo_sse_clients (\d+)$/m.exec(text)?.[1]);
}

describe.runIf(hasBrowser)("useExecution", () => {
  let page: { url: string; close: () => void };
  beforeAll(async () => {
    page = await servePage(await bundle("test/fixtures/dashboard/react-page.mjs"));
  });
  afterAll(() => page.close());

  async function serveOrders(options: Parameters<typeof serve>[0] = {}): Promise<RondoServer> {
    const server = await serve({ cors: { origins: [page.url] }, ...options });
    server.rondo.serve(order, writer);
    return server;
  }

  async function open({ url }: RondoServer, id: string, token: string): Promise<Page> {
    return openPage(`${page.url}/?${new URLSearchParams({ url, id, token }).toString()}`);
  }

  const shows = (opened: Page, id: string, text: string): Promise<void> =>
    opened.locator(`#${id}`, { hasText: text }).waitFor();

  test("follows an execution to its end, with one stream, by a token for it alone", async () => {
    const server = await serveOrders();
    const execution = await server.rondo.start(order, { item: "a lamp" }, { id: "order-7" });
    const { token } = await server.rondo.tokenFor("order-7");
    const opened = await open(server, "order-7", token);
    await shows(opened, "status", "running");
    await shows(opened, "connected", "true");
    await shows(opened, "input", '{"item":"a lamp"}');
    // StrictMode mounts twice: the first connection is closed.
    await until("streams", async () => (await streamsOf(server)) === 2);
    await execution.signal("approved");
    await shows(opened, "status", "done");
    await shows(opened, "output", "a lamp is on its way");
    await shows(opened, "input", '{"item":"a lamp"}');
    expect(await opened.locator("#error").textContent()).toBe("none");
    await until("streams", async () => (await streamsOf(server)) === 0);
  });

  test("shows published values, and the chunks of a stream that count", async () => {
    const server = await serveOrders();
    const execution = await server.rondo.start(writer, null, { id: "w" });
    const { token } = await server.rondo.tokenFor("w");
    const opened = await open(server, "w", token);
    await shows(opened, "text", "old words and new ones");
    await shows(opened, "stream", "3 done=true restarted=true");
    await shows(opened, "published", '{"tries":2}');
    expect(await opened.locator("#text").textContent()).toBe("old words and new ones");
    // The stream has ended; the execution is still followed.
    await until("streams", async () => (await streamsOf(server)) === 1);
    await execution.signal("read");
    await shows(opened, "status", "done");
  });

  test("leaves no stream behind when it is unmounted or follows another id, and shows nothing of the one before", async () => {
    const server = await serveOrders();
    await server.rondo.start(order, { item: "a lamp" }, { id: "order-7" });
    const { token } = await server.rondo.tokenFor("order-7");
    const opened = await open(server, "order-7", token);
    await shows(opened, "status", "running");
    await opened.getByRole("button", { name: "other" }).click();
    await shows(opened, "error", "forbidden: this token is for the execution order-7 only");
    await shows(opened, "status", "nothing yet");
    await until("streams", async () => (await streamsOf(server)) === 0);
    await opened.getByRole("button", { name: "none" }).click();
    await shows(opened, "error", "none");
    const again = await open(server, "order-7", token);
    await shows(again, "status", "running");
    await again.getByRole("button", { name: "unmount" }).click();
    await until("streams", async () => (await streamsOf(server)) === 0);
  });

  test("connects again after the server was gone, and goes on", async () => {
    const store = `file:${temporaryDirectory()}`;
    const server = await serveOrders({ store });
    await server.rondo.start(order, { item: "a lamp" }, { id: "order-7" });
    const { token } = await server.rondo.tokenFor("order-7");
    const opened = await open(server, "order-7", token);
    await shows(opened, "connected", "true");
    await server.close({ graceMs: 500 });
    await shows(opened, "connected", "false");
    await shows(opened, "status", "running");
    const next = await serveOrders({ store, port: Number(new URL(server.url).port) });
    await shows(opened, "connected", "true");
    await next.rondo.execution("order-7").signal("approved");
    await shows(opened, "output", "a lamp is on its way");
    await next.close({ graceMs: 500 });
  });
});

test("hooks render on a server without a connection", async () => {
  const [react, server]: string[] = ["react", "react-dom/server"];
  const { createElement } = (await import(react as string)) as {
    createElement: (...part: unknown[]) => unknown;
  };
  const { renderToString } = (await import(server as string)) as {
    renderToString: (element: unknown) => string;
  };
  const { useExecution } = await import("rondo/react");
  const Order = (): unknown => {
    const { status, view, error, connected } = useExecution("order-7", { url: "http://127.0.0.1:1" });
    return JSON.stringify({ status, view, error, connected });
  };
  const text = renderToString(createElement(Order)).replaceAll("&quot;", '"');
  expect(text).toBe('{"status":null,"view":null,"error":null,"connected":false}');
});

test("the hooks have less than 5 KB without the client and React", async () => {
  const code = await bundle("src/react.ts", ["react", /client\/connect/]);
  expect(code).toContain("react");
  expect(gzipSync(code).length).toBeLessThan(5_000);
});
