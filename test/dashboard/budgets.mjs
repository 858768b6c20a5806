// What the dashboard may cost, measured: `npm run budgets:pages`. Needs `npm run build` and a Chromium; prints a line per figure
// and fails if one is over. The server is restarted before anything is measured: nothing is in its memory. Beside what a call
// took stands what it used of a processor (the asking included), which other work on the machine changes little.
import { spawnSync } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { chromium } from "playwright-core";
import { openServer } from "../../dist/src/compose/compose-server.js";
import { workflow } from "../../dist/src/index.js";

const FLAGS =
  "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking --disable-component-update --disable-sync";
const LOOKS = 40;
const OPEN_S = 20;
/** How long an idle page is watched, after it has settled. */
const SETTLE_S = 45;
const IDLE_S = 60;
const PAGES = [
  "/",
  "/executions",
  "/executions/t1000000",
  "/workers",
  "/queues",
  "/schedules",
  "/dead-letters",
  "/definitions",
  "/definitions/big",
  "/alerts",
  "/settings",
];

const found = ["chromium", "chromium-browser", "google-chrome"]
  .map((name) => spawnSync("which", [name], { encoding: "utf8" }).stdout.trim())
  .find((path) => path !== "");
if (found === undefined) {
  console.error("there is no Chromium: apt-get install chromium");
  process.exit(1);
}

let isOver = false;
function tell(what, value, { max, unit, cpuMs }) {
  const isFine = value < max;
  isOver ||= !isFine;
  const cpu = cpuMs === undefined ? "" : `, ${round(cpuMs)} ms of CPU`;
  console.log(`${isFine ? "ok  " : "OVER"} ${what}: ${round(value)} ${unit}${cpu} (under ${max})`);
}

function round(n) {
  return Math.round(n * 10) / 10;
}

/** Milliseconds of processors that this process has used. */
function cpu() {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1_000;
}

const big = workflow({ name: "big" }).phase("work", {
  *enumerate({ input }) {
    for (let n = 0; n < input.count; n++) yield { n };
  },
  tolerate: "1%",
  retry: { attempts: 1 },
  process: ({ task }) => {
    if (task.n % 9973 === 5) throw new Error(`task ${task.n} failed`);
    return task.n;
  },
});

const built = new URL("../../dist/dashboard/assets/", import.meta.url);
const scripts = readdirSync(built).filter((name) => name.endsWith(".js"));
const size = scripts.reduce((sum, name) => sum + gzipSync(readFileSync(new URL(name, built))).length, 0);
tell("JavaScript of all pages, compressed", size / 1_000, { max: 200, unit: "KB" });

const directory = mkdtempSync(join(tmpdir(), "rondo-budgets-"));
let server = await openServer({ port: 0, store: `file:${directory}` });
const browser = await chromium.launch({ executablePath: found, args: FLAGS.split(" ") });
try {
  server.rondo.serve(big);
  const sizes = [
    ["t100000", 100_000, 1_000],
    ["t1000000", 1_000_000, 2_500],
  ];
  for (const [id, count] of sizes) await (await server.rondo.start(big, { count }, { id })).result();
  await server.close({ graceMs: 1_000 });
  server = await openServer({ port: 0, store: `file:${directory}` });
  // The browser's own start is not what is measured.
  const first = await browser.newPage();
  await first.goto(`${server.url}/executions`);
  await first.getByText("t1000000").waitFor();
  await first.close();
  for (const [id, count, max] of sizes) {
    const from = cpu();
    const ms = await interactive(id);
    tell(`execution page with ${count} tasks, interactive`, ms, { max, unit: "ms", cpuMs: cpu() - from });
  }
  await answers();
  await openPages();
  await Promise.all(PAGES.map(idle));
} finally {
  await browser.close();
  await server.close({ graceMs: 1_000 });
  rmSync(directory, { recursive: true, force: true });
}
process.exit(isOver ? 1 : 0);

/** From going there until the map is drawn and a key is answered. */
async function interactive(id) {
  const page = await browser.newPage();
  const from = performance.now();
  await page.goto(`${server.url}/executions/${id}`);
  await page.getByRole("img", { name: /tasks: .* done/ }).waitFor();
  await page.keyboard.press("n");
  await page.waitForURL("**task=5");
  const ms = performance.now() - from;
  await page.close();
  return ms;
}

/** What a page loads of JavaScript, and how often it asks while nothing happens. */
async function idle(path) {
  const page = await browser.newPage();
  const loaded = new Set();
  let asked = 0;
  page.on("request", (request) => {
    const { pathname } = new URL(request.url());
    if (pathname.endsWith(".js")) loaded.add(pathname.slice(pathname.lastIndexOf("/") + 1));
    asked++;
  });
  await page.goto(server.url + path);
  await page.waitForTimeout(SETTLE_S * 1_000);
  asked = 0;
  await page.waitForTimeout(IDLE_S * 1_000);
  const often = (asked / IDLE_S) * 60;
  await page.close();
  const js = [...loaded].reduce((sum, name) => sum + gzipSync(readFileSync(new URL(name, built))).length, 0);
  tell(`${path}, JavaScript, compressed`, js / 1_000, { max: 130, unit: "KB" });
  tell(`${path} idle, requests a minute`, often, { max: 20, unit: "requests" });
}

/** What pages ask for again and again, with a million tasks stored. */
async function answers() {
  const of = "/v1/executions/t1000000";
  const states = `${of}/tasks/states`;
  const { createdAt: startedAt } = await (await fetch(server.url + of)).json();
  for (const path of [
    "/v1/overview",
    "/v1/counts",
    "/v1/executions?limit=100",
    "/v1/progress?ids=t1000000,t100000",
    of,
    `${of}/why`,
    `${of}/lanes?pieces=240`,
    // Another piece of the time at each look.
    (i) => `${of}/lanes?pieces=240&from=${startedAt + i}&to=${startedAt + 5_000}`,
    states,
    `${states}?by=ms`,
    (i) => `${states}?by=within&from=${startedAt + i}&to=${startedAt + 5_000}`,
    `${of}/events?since=${startedAt + 2_000}&limit=100`,
    `${of}/tasks?limit=100`,
    `${of}/tasks?status=failed&limit=1`,
    `${of}/events?limit=100`,
    "/v1/dead-letter-groups",
  ]) {
    const times = [];
    const addressOf = typeof path === "string" ? () => path : path;
    const cpuFrom = cpu();
    for (let i = 0; i < LOOKS; i++) {
      const from = performance.now();
      await (await fetch(server.url + addressOf(i))).arrayBuffer();
      times.push(performance.now() - from);
    }
    const cpuMs = (cpu() - cpuFrom) / LOOKS;
    times.sort((a, b) => a - b);
    const value = times[Math.floor(LOOKS * 0.95)];
    tell(`GET ${addressOf(0)}, 95 of 100`, value, { max: 50, unit: "ms", cpuMs });
  }
}

/** What an open page takes of the server's time; beside it, nothing happens. */
async function openPages() {
  for (const path of ["/", "/executions", "/executions/t1000000"]) {
    const page = await browser.newPage();
    await page.goto(server.url + path);
    await page.waitForTimeout(3_000);
    const before = cpu();
    await page.waitForTimeout(OPEN_S * 1_000);
    const used = cpu() - before;
    await page.close();
    tell(`${path} open, share of a core`, (used / (OPEN_S * 1_000)) * 100, { max: 2, unit: "%" });
  }
}
