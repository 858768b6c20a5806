// The demo as a real process, killed with -9 and started again.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { expect, onTestFinished, test } from "vitest";
import { CliProcess, folder } from "../cli/cli-process.ts";

const TASKS = 60_000;
const number = (text: string, pattern: RegExp): number => {
  const found = pattern.exec(text)?.[1];
  expect(found, `${pattern} in\n${text}`).toBeDefined();
  return Number(found?.replaceAll(",", ""));
};
const demo = (cwd: string, ...args: string[]): CliProcess =>
  new CliProcess("dist/demo/main.js", ["--exit", ...args], { cwd });

test("killed half-way, twice, it goes on and counts every task exactly once", async () => {
  const cwd = folder();
  for (let kill = 0; kill < 2; kill++) {
    const process = demo(cwd, "--tasks", String(TASKS));
    await process.line(/^work: [\d,]+ of 60,000$/);
    process.kill("SIGKILL");
    expect(await process.ended).toMatchObject({ code: null, signal: "SIGKILL" });
  }
  // The number of tasks is the one it began with.
  const { code, stdout, stderr } = await demo(cwd).ended;
  expect({ code, stderr }).toEqual({ code: 0, stderr: "" });

  expect(stdout).toContain("Found execution demo as the process before left it:");
  const settled = number(stdout, /^ {2}([\d,]+) of 60,000 tasks are settled: kept, and not run again$/m);
  const inFlight = number(stdout, /^ {2}([\d,]+) were in flight, delivered but not counted/m);
  const rest = number(stdout, /^ {2}([\d,]+) are still to be done$/m);
  expect(settled).toBeGreaterThan(0);
  expect(settled).toBeLessThan(TASKS);
  expect(settled + inFlight + rest).toBe(TASKS);

  expect(stdout).toContain('Result {"done":60000,');
  expect(stdout).toContain("✓ 60,000 tasks settled, 0 lost, 0 counted twice: each of 0 to 59,999");
  expect(stdout).toMatch(/✓ their results add up to ([\d,]+); the second phase came to \1$/m);
  expect(number(stdout, /✓ of [\d,]+ tasks in flight .*, ([\d,]+) were delivered again$/m)).toBe(inFlight);
  expect(number(stdout, /✓ of ([\d,]+) tasks settled by then, 0 were delivered again$/m)).toBe(settled);
  expect(stdout).not.toContain("✗");
}, 120_000);

test("beside a finished demo it begins another, and ends by itself", async () => {
  const cwd = folder();
  const first = await demo(cwd, "--tasks", "500").ended;
  expect(first.code).toBe(0);
  expect(first.stdout).toContain("500 tasks settled, 0 lost, 0 counted twice");
  expect(first.stdout).toMatch(/kill -9 \d+\n/);
  const second = await demo(cwd, "--tasks", "300").ended;
  expect(second.code).toBe(0);
  expect(second.stdout).toContain(
    "A finished demo is there already (execution demo): this one is execution demo-2.",
  );
  expect(second.stdout).toContain("300 tasks settled, 0 lost, 0 counted twice");
});

test("whoever reads only the beginning ends it, without an error", async () => {
  const main = fileURLToPath(new URL("../../dist/demo/main.js", import.meta.url));
  const child = spawn(process.execPath, [main, "--tasks", "2000"], { cwd: folder() });
  onTestFinished(() => void child.kill("SIGKILL"));
  let stderr = "";
  child.stderr.on("data", (data: Buffer) => (stderr += data.toString()));
  child.stdout.once("data", () => child.stdout.destroy());
  const [code] = (await once(child, "close")) as [number | null];
  expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
});

test("arguments that make no sense are refused", async () => {
  const cwd = folder();
  expect(await demo(cwd, "--tasks", "many").ended).toMatchObject({ code: 2, stdout: "" });
  expect(await demo(cwd, "--task", "5").ended).toMatchObject({ code: 2, stdout: "" });
});
