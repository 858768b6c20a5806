// The bench as a program: what it prints and counts. Never how fast it is: figures live in the bench.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { expect, test } from "vitest";

const MAIN = "dist/tools/bench/main.js";
const number = expect.any(Number);

async function runBench(...args: string[]): Promise<{ code: number; stdout: string; stderr: string }> {
  const child = spawn(process.execPath, [MAIN, ...args], { stdio: ["ignore", "pipe", "pipe"] });
  const [stdout, stderr, [code]] = await Promise.all([
    text(child.stdout),
    text(child.stderr),
    once(child, "exit") as Promise<[number]>,
  ]);
  return { code, stdout, stderr };
}

test("--json gives one object with the figures, the goals and the machine", {
  timeout: 180_000,
}, async () => {
  const directory = mkdtempSync(join(tmpdir(), "bench-test-"));
  const args = ["--short", "--json", "--only", "chain", "--store", `file:${directory}`];
  const { code, stdout, stderr } = await runBench(...args);
  expect({ code, stderr: code === 0 ? "" : stderr }).toEqual({ code: 0, stderr: "" });
  expect(stdout.trimEnd().split("\n")).toHaveLength(1);
  const report = JSON.parse(stdout) as Record<string, unknown>;
  expect(report).toEqual({
    machine: expect.objectContaining({ cores: number, node: process.version, fdatasyncP50Ms: number }),
    short: true,
    chain: expect.objectContaining({
      executions: 200,
      steps: 1_000,
      stepsPerSecond: number,
      commits: number,
      peakRssMb: number,
    }),
    goals: expect.any(Array),
  });
  const goals = (report["goals"] as { scenario: string; figure: string }[]).map(
    ({ scenario, figure }) => `${scenario}.${figure}`,
  );
  expect(goals).toEqual(["chain.stepsPerSecond"]);
  expect(readdirSync(directory)).toEqual([]);
  rmSync(directory, { recursive: true });
});

test("--store postgres starts a server of its own and compares with plain inserts", {
  timeout: 180_000,
}, async () => {
  const args = ["--short", "--json", "--store", "postgres", "--only", "pg-latency"];
  const { code, stdout, stderr } = await runBench(...args);
  expect({ code, stderr: code === 0 ? "" : stderr }).toEqual({ code: 0, stderr: "" });
  const report = JSON.parse(stdout) as Record<string, unknown>;
  expect(report).toMatchObject({
    machine: { store: expect.stringMatching(/^PostgreSQL .*synchronous_commit=on, fsync=on/) },

    "pg-latency": { executions: 100, p50Ms: number, insertP50Ms: number },
  });
  const goals = (report["goals"] as { scenario: string; figure: string }[]).map(
    ({ scenario, figure }) => `${scenario}.${figure}`,
  );
  expect(goals).toEqual(["pg-latency.p50Ms"]);
});

test("an unknown scenario is a usage error that names those there are", async () => {
  const { code, stdout, stderr } = await runBench("--only", "nothing");
  expect({ code, stdout }).toEqual({ code: 2, stdout: "" });
  expect(stderr).toContain("fanout,million,retries,chain,latency,starts,timers,idle");
});
