// What the dashboard may cost, measured: `npm run budgets:pages`. Needs `npm run build` and a Chromium; prints a line per figure
// and fails if one is over.
import { spawnSync } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { chromium } from "playwright-core";
import { openServer } from "../../dist/compose-server.js";
import { workflow } from "../../dist/index.js";

const FLAGS =
  "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking --disable-component-update --disable-sync";
const LOOKS = 40;
const OPEN_S = 20;

const found = ["chromium", "chromium-browser", "google-chrome"]
  .map((name) => spawnSync("which", [name], { encoding: "utf8" }).stdout.trim())
  .find((path) => path !== "");
if (found === undefined) {
  console.error("there is no Chromium: apt-get install chromium");
  process.exit(1);
}

let isOver = false;
function tell(what, value, max, unit) {
  const isFine = value < max;
  isOver ||= !isFine;
  console.log(`${isFine ? "ok  " : "OVER"} ${what}: ${Math.round(value * 10) / 10} ${unit} (under ${max})`);
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
tell("JavaScript, compressed", size / 1_000, 130, "KB");

const directory = mkdtempSync(join(tmpdir(), "rondo-budgets-"));
const server = await openServer({ port: 0, store: `file:${directory}` });
const browser = await chromium.launch({ executablePath: found, args: FLAGS.split(" ") });
try {
  server.rondo.serve(big);
  const sizes = [
    ["t100000", 100_000, 1_000],
    ["t1000000", 1_000_000, 2_500],
  ];
  for (const [id, count] of sizes) await (await server.rondo.start(big, { count }, { id })).result();
  await interactive("t100000");
  for (const [id, count, max] of sizes)
    tell(`execution page with ${count} tasks, interactive`, await interactive(id), max, "ms");
  await answers();
  await openPages();
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

/** What pages ask for again and again, with a million tasks stored. */
async function answers() {
  const of = "/v1/executions/t1000000";
  const states = `${of}/tasks/states`;
  for (const path of [
    "/v1/overview",
    "/v1/counts",
    "/v1/executions?limit=100",
    "/v1/progress?ids=t1000000,t100000",
    of,
    `${of}/why`,
    `${of}/lanes?pieces=240`,
    states,
    `${states}?by=ms`,
    `${of}/tasks?limit=100`,
    `${of}/tasks?status=failed&limit=1`,
    `${of}/events?limit=100`,
    "/v1/dead-letter-groups",
  ]) {
    const times = [];
    for (let i = 0; i < LOOKS; i++) {
      const from = performance.now();
      await (await fetch(server.url + path)).arrayBuffer();
      times.push(performance.now() - from);
    }
    times.sort((a, b) => a - b);
    tell(`GET ${path}, 95 of 100`, times[Math.floor(LOOKS * 0.95)], 50, "ms");
  }
}

/** What an open page takes of the server's time; beside it, nothing happens. */
async function openPages() {
  for (const path of ["/", "/executions", "/executions/t1000000"]) {
    const page = await browser.newPage();
    await page.goto(server.url + path);
    await page.waitForTimeout(3_000);
    const before = process.cpuUsage();
    await page.waitForTimeout(OPEN_S * 1_000);
    const { user, system } = process.cpuUsage(before);
    await page.close();
    tell(`${path} open, share of a core`, ((user + system) / (OPEN_S * 1e6)) * 100, 2, "%");
  }
}
