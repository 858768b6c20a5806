// The demo as real processes: killed with -9 and started again, its workers killed and frozen, its messages doubled.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { writeFileSync } from "node:fs";
import type { AddressInfo } from "node:net";
import { createServer } from "node:net";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, onTestFinished, test } from "vitest";
import { CliProcess, folder } from "../../fixtures/cli/cli-process-fixture.ts";

const TASKS = 20_000;
const number = (text: string, pattern: RegExp): number => {
  const found = pattern.exec(text)?.[1];
  expect(found, `${pattern} in\n${text}`).toBeDefined();
  return Number(found?.replaceAll(",", ""));
};
const demo = (cwd: string, ...args: string[]): CliProcess =>
  new CliProcess("dist/tools/demo/main.js", ["--exit", ...args], { cwd });

test("killed half-way, twice, it goes on and counts every task exactly once", async () => {
  const cwd = folder();
  for (let kill = 0; kill < 2; kill++) {
    const process = demo(cwd, "--tasks", String(TASKS));
    await process.line(/^work: [\d,]+ of 20,000$/);
    process.kill("SIGKILL");
    expect(await process.ended).toMatchObject({ code: null, signal: "SIGKILL" });
  }
  // The number of tasks is the one it began with.
  const { code, stdout, stderr } = await demo(cwd).ended;
  expect({ code, stderr }).toEqual({ code: 0, stderr: "" });

  expect(stdout).toContain("Found execution demo as the last process left it:");
  const settled = number(stdout, /^ {2}([\d,]+) of 20,000 tasks are settled: kept, and not run again$/m);
  const inFlight = number(stdout, /^ {2}([\d,]+) were in flight, delivered but not counted/m);
  const rest = number(stdout, /^ {2}([\d,]+) are still to be done$/m);
  expect(settled).toBeGreaterThan(0);
  expect(settled).toBeLessThan(TASKS);
  expect(settled + inFlight + rest).toBe(TASKS);

  expect(stdout).toContain('Result {"done":20000,');
  expect(stdout).toContain("✓ 20,000 tasks settled, 0 lost, 0 counted twice: each of 0 to 19,999");
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
    "A finished demo exists already (execution demo): this one is execution demo-2.",
  );
  expect(second.stdout).toContain("300 tasks settled, 0 lost, 0 counted twice");
}, 120_000);

/** Lines that must come in this order. */
const PARTS = [
  /^1 {2}A fan-out of /,
  /^work: done, /,
  /^check: done, /,
  /^pause: done, /,
  /^2 {2}A chain of commands/,
  /^✓ COUNT_TASKS /,
  /^✓ WRITE_NEWS /,
  /^✓ ANNOUNCE_NEWS /,
  /^◂ received, signed .*"said":"2000 tasks were done, each of them counted once"/,
  /^3 {2}A script in a sandbox/,
  /^│ part-1 +below 10000 there are 1229 primes/,
  /^│ part-4 +below 160000 there are 14683 primes/,
  /^Result \{"done":2000,/,
  /^ {2}✓ 1 broadcast of the commands has come, signed/,
  /^ {2}✓ the script came to 14,683 primes, and there are 14,683$/,
  /^ {2}✓ the auditor counted 3 executions again from their [\d,]+ events: 0 lost, 0 counted twice$/,
];

test("it plays all its parts in order, and the auditor finds nothing lost and nothing counted twice", async () => {
  const { code, stdout, stderr } = await demo(folder(), "--tasks", "2000").ended;
  expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
  const lines = stdout.split("\n");
  const places = PARTS.map((part) => lines.findIndex((line) => part.test(line)));
  expect(
    places.map((place, i) => (place < 0 ? String(PARTS[i]) : null)).filter((missing) => missing !== null),
    stdout,
  ).toEqual([]);
  expect(places).toEqual(places.toSorted((a, b) => a - b));
  expect(stdout).not.toContain("✗");
}, 120_000);

test("killed in the middle of the script it goes on with that, and broadcasts nothing again", async () => {
  const cwd = folder();
  const killed = demo(cwd, "--tasks", "500");
  await killed.line(/^│ part-2 /);
  killed.kill("SIGKILL");
  await killed.ended;
  const { code, stdout, stderr } = await demo(cwd).ended;
  expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
  expect(stdout).toContain("Found execution demo at its end: the next parts follow.");
  expect(stdout).toContain("500 tasks settled, 0 lost, 0 counted twice");
  expect(stdout).toContain("✓ 1 broadcast of the commands has come, signed");
  expect(stdout).toContain("✓ the script came to 14,683 primes, and there are 14,683");
  expect(stdout).not.toContain("✗");
}, 120_000);

test("workers killed and frozen and messages delivered twice change no count", async () => {
  const process = demo(folder(), "--tasks", "20000");
  const url = /http:\S+/.exec(await process.line(/^ {2}page /))?.[0] ?? "";
  expect((await fetch(url)).headers.get("content-type")).toContain("text/html");
  const act = async (deed: string): Promise<string> => {
    const response = await fetch(new URL("/v1/demo", url), {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ deed }),
    });
    return ((await response.json()) as { told: string }).told;
  };
  await process.line(/^1 {2}A fan-out/);
  expect(await act("duplicate")).toBe("from now on, every message of a worker is delivered twice");
  expect(await act("kill")).toMatch(/^worker-\d+ \(pid \d+\) was killed with -9$/);
  expect(await act("freeze")).toMatch(/^worker-\d+ \(pid \d+\) is frozen for 6 s$/);
  const shown = (await (await fetch(new URL("/v1/demo", url))).json()) as Record<string, unknown>;
  expect(shown).toMatchObject({ killed: 1, frozen: 1, doubled: { isOn: true }, isStaying: false });

  const { code, stdout, stderr } = await process.ended;
  expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
  expect(stdout).toContain(
    "Checks of the journal, event by event, although 1 worker was killed and 1 was frozen:",
  );
  expect(stdout).toContain("✓ 20,000 tasks settled, 0 lost, 0 counted twice");
  const twice = number(stdout, /✓ ([\d,]+) receipts were delivered twice; \1 were recognised/);
  expect(twice).toBeGreaterThan(0);
  expect(stdout).toMatch(/✓ the auditor counted 3 executions .*: 0 lost, 0 counted twice$/m);
  expect(stdout).not.toContain("✗");
}, 120_000);

test("a port that is taken and a directory that is none are told of in a sentence", async () => {
  const taken = createServer().listen(0, "127.0.0.1");
  onTestFinished(() => void taken.close());
  await once(taken, "listening");
  const { port } = taken.address() as AddressInfo;
  const cwd = folder();
  const refused = await demo(cwd, "--port", String(port)).ended;
  expect(refused).toMatchObject({ code: 4, stdout: "" });
  expect(refused.stderr).toBe(
    `rondo: 127.0.0.1:${port} is in use by another process\n  choose another port, or 0 for any: --port, or \`server: { port }\` of openRondo\n`,
  );
  writeFileSync(join(cwd, "file"), "");
  const broken = await demo(cwd, "--store", "file:file").ended;
  expect(broken).toMatchObject({ code: 6, stdout: "" });
  expect(broken.stderr).not.toContain("bug");
});

test("whoever reads only the beginning ends it, without an error", async () => {
  const main = fileURLToPath(new URL("../../../dist/tools/demo/main.js", import.meta.url));
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
  expect(await demo(cwd, "--port", "x").ended).toMatchObject({ code: 2, stdout: "" });
  expect(await demo(cwd, "--task", "5").ended).toMatchObject({ code: 2, stdout: "" });
});
