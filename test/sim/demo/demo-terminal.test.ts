// The demo on a terminal: keys, more than one round, and the end at any time, after which nothing is left.
import { existsSync, readdirSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { describe, expect, test } from "vitest";
import { CliProcess, folder } from "../../fixtures/cli/cli-process-fixture.ts";
import { needCommand } from "../../fixtures/need-command.ts";
import { Terminal } from "../../fixtures/sim/terminal-fixture.ts";
import { until } from "../../fixtures/until.ts";

const MAIN = fileURLToPath(new URL("../../../dist/tools/demo/main.js", import.meta.url));
const CTRL_C = "\u0003";
const CTRL_D = "\u0004";
const FOUND = /⚡ the auditor finds 0 lost, 0 counted twice, of [\d,]+ settled so far$/;

function demo({ tasks = 30_000, cwd = folder(), temporary = folder() } = {}): Terminal {
  const args = ["--port", "0", "--tasks", String(tasks)];
  return new Terminal([process.execPath, MAIN, ...args], { cwd, env: { TMPDIR: temporary } });
}

/** Its processes: itself and its workers. */
async function processesOf(terminal: Terminal): Promise<number[]> {
  const url = /http:\S+/.exec(terminal.text)?.[0] ?? "";
  const shown = (await (await fetch(new URL("/v1/demo", url))).json()) as { workers: { pid: number }[] };
  return [pidOf(terminal), ...shown.workers.map(({ pid }) => pid)];
}

function pidOf({ text }: Terminal): number {
  return Number(/kill -9 (\d+)/.exec(text)?.[1]);
}

async function expectNothingLeft(pids: readonly number[], temporary: string): Promise<void> {
  const left = (): number[] => pids.filter((pid) => existsSync(`/proc/${pid}`));
  await until("its processes are gone", () => left().length === 0, { state: () => String(left()) });
  const folders = (): string[] => readdirSync(temporary);
  await until("its folders are gone", () => folders().length === 0, { state: () => String(folders()) });
}

describe.runIf(process.platform === "linux" && needCommand("script", "bsdutils"))("on a terminal", () => {
  test("each harm is followed by what the auditor finds, in the second round too", async () => {
    const terminal = demo();
    await terminal.line(/^Open the page now/);
    terminal.type("k\n");
    await terminal.line(/⚡ worker-\d+ \(pid \d+\) was killed with -9$/);
    await terminal.line(FOUND);
    terminal.type("f\n");
    await terminal.line(/⚡ worker-\d+ \(pid \d+\) is frozen for 6 s$/);
    await terminal.line(FOUND);
    terminal.type("d\n");
    await terminal.line(/⚡ from now on, every message of a worker is delivered twice$/);
    await terminal.line(FOUND);
    terminal.type("what?\n");
    await terminal.line(/keys +k kills a worker, f freezes one, .* q ends the demo$/);
    terminal.type("r\n");
    await terminal.line(/⚡ a round is under way: it has to end first$/);
    await terminal.line(/although 1 worker was killed and 1 was frozen/);
    await terminal.line(/✓ ([\d,]+) receipts were delivered twice; \1 were recognised/);
    await terminal.line(/^It stays up/);
    terminal.type("k\n");
    await terminal.line(/⚡ no task runs, so another round begins$/);
    await terminal.line(/⚡ worker-\d+ \(pid \d+\) was killed with -9$/);
    await terminal.line(FOUND);
    await terminal.line(/^Checks of the journal, event by event, although 1 worker was killed:/);
    await terminal.line(/^It stays up/);
    terminal.type("q\n");
    expect(await terminal.ended).toBe(0);
    expect(terminal.text).not.toMatch(/^ {2}✗/m);
  }, 180_000);

  test.each([
    ["while it waits for a page", CTRL_C, [/^Open the page now/]],
    ["at the first tasks", CTRL_C, [/^Open the page now/, /^1 {2}A fan-out/]],
    ["in the script", CTRL_C, [/^Open the page now/, /^│ part-2/]],
    ["by the end of input", CTRL_D, [/^Open the page now/, /^1 {2}A fan-out/]],
    ["by q", "q\n", [/^Open the page now/, /^1 {2}A fan-out/]],
  ])(
    "ended %s, it leaves no process and no folder",
    async (_when, keys, lines) => {
      const temporary = folder();
      const terminal = demo({ tasks: 3_000, temporary });
      await terminal.line(lines[0] as RegExp);
      if (lines.length > 1) terminal.type("\n");
      for (const line of lines.slice(1)) await terminal.line(line);
      const pids = lines.length > 1 ? await processesOf(terminal) : [pidOf(terminal)];
      terminal.type(keys);
      expect(await terminal.ended).toBe(130);
      expect(terminal.text).toMatch(/^Left (?:half-way|before it began)\./m);
      await expectNothingLeft(pids, temporary);
    },
    60_000,
  );

  test("killed with -9 in its second round, it leaves nothing that runs, and goes on with that round", async () => {
    const [cwd, temporary] = [folder(), folder()];
    const terminal = demo({ cwd, temporary });
    await terminal.line(/^Open the page now/);
    terminal.type("\n");
    await terminal.line(/^It stays up/);
    terminal.type("r\n");
    await terminal.line(/^1 {2}A fan-out/);
    await terminal.line(/work .* [1-9][\d,]*\/30,000/);
    const pids = await processesOf(terminal);
    process.kill(pidOf(terminal), "SIGKILL");
    expect(await terminal.ended).toBe(137);
    await expectNothingLeft(pids, temporary);

    const { code, stdout } = await new CliProcess("dist/tools/demo/main.js", ["--exit", "--port", "0"], {
      cwd,
    }).ended;
    expect(code).toBe(0);
    expect(stdout).toContain("Found execution demo-2 as the last process left it:");
    expect(stdout).toContain("✓ 30,000 tasks settled, 0 lost, 0 counted twice");
    expect(stdout).not.toContain("✗");
  }, 180_000);
});
