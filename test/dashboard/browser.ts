// Debian's Chromium, driven by Playwright, over servers of tests. A page notes what must never happen: a violation of
// the policy, a script that threw.
import { existsSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { type Browser, chromium, type Page } from "playwright-core";
import { afterAll, afterEach, beforeAll } from "vitest";
import { openServer, type ServerOptions } from "../../src/compose/compose-server.ts";
import type { RondoServer } from "../../src/server/serve.ts";
import { MemoryStore } from "../../src/store/memory/memory-store.ts";
import { needCommand } from "../tools/need-command.ts";

const FLAGS =
  "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking --disable-component-update --disable-sync";
const EXECUTABLES = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"];

/** Whether there is a browser; with CI=true a lack of it is an error. */
export const hasBrowser = needCommand("chromium", "chromium");

const TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"];
const WATCH_POLICY = `document.addEventListener("securitypolicyviolation", (event) =>
  noteTrouble(event.violatedDirective + " " + event.blockedURI + " " + event.sourceFile + ":" + event.lineNumber))`;

let browser: Browser | null = null;
const servers: RondoServer[] = [];
const pages: { page: Page; troubles: string[] }[] = [];

beforeAll(async () => {
  if (!hasBrowser) return;
  const executablePath = EXECUTABLES.find((path) => existsSync(path));
  browser = await chromium.launch({
    args: FLAGS.split(" "),
    ...(executablePath === undefined ? {} : { executablePath }),
  });
});

afterEach(async () => {
  const troubles = pages.flatMap((opened) => opened.troubles);
  for (const { page } of pages.splice(0)) await page.context().close();
  if (troubles.length > 0) throw new Error(`this must never happen on a page:\n${troubles.join("\n")}`);
});

afterAll(async () => {
  await browser?.close();
  for (const server of servers.splice(0)) await server.close({ graceMs: 500 });
});

/** A server that lives as long as the file's tests. */
export async function serve(options: ServerOptions = {}): Promise<RondoServer> {
  const server = await openServer({ port: 0, store: new MemoryStore(), ...options });
  servers.push(server);
  return server;
}

export interface PageOptions {
  readonly theme?: "light" | "dark";
  readonly width?: number;
  readonly height?: number;
}

/** A page at an address of a server; closed after the test. */
export async function openPage(url: string, options: PageOptions = {}): Promise<Page> {
  if (browser === null) throw new Error("there is no browser");
  const { theme = "light", width = 1_280, height = 800 } = options;
  const context = await browser.newContext({
    viewport: { width, height },
    colorScheme: theme,
    reducedMotion: "reduce",
    permissions: ["clipboard-write"],
  });
  const page = await context.newPage();
  const troubles: string[] = [];
  pages.push({ page, troubles });
  await page.exposeBinding("noteTrouble", (_, text: string) => void troubles.push(text));
  await page.addInitScript(WATCH_POLICY);
  page.on("pageerror", (error) => troubles.push(`${page.url()}: ${error.stack ?? error.message}`));
  // Where others share the machine, what takes a moment takes long at times.
  page.setDefaultTimeout(60_000);
  await page.goto(url);
  return page;
}

const axeFile = createRequire(import.meta.url).resolve("axe-core/axe.min.js");

/** What axe finds wrong with a page, as lines; `rules`: only these. */
export async function findBarriers(page: Page, rules?: readonly string[]): Promise<string[]> {
  await page.evaluate(await readFile(axeFile, "utf8"));
  const only = rules === undefined ? { type: "tag", values: TAGS } : { type: "rule", values: rules };
  const found = (await page.evaluate(`axe.run(document, { runOnly: ${JSON.stringify(only)} })`)) as {
    violations: { id: string; nodes: { target: string[]; failureSummary: string }[] }[];
  };
  return found.violations.flatMap(({ id, nodes }) =>
    nodes.map(({ target, failureSummary }) => `${id}: ${target.join(" ")}: ${failureSummary}`),
  );
}
