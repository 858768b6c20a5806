/**
 * Follows a page of the documentation as its reader does, in a folder of its own with Rondo installed: files are written,
 * programs and commands are run in their order, data is read, and output that is shown (```text after commands) is
 * compared. Ports of the page are others here, so that pages can be followed side by side.
 */
import { chmodSync, mkdirSync, mkdtempSync, realpathSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, dirname, join } from "node:path";
import { expect, onTestFinished } from "vitest";
import { parse } from "yaml";
import { parseDefinition } from "../../src/kernel/definition/parse-definition.ts";
import { isRejection } from "../../src/std/rejection.ts";
import { freePorts } from "../../tools/bench/free-ports.ts";
import { type Block, blocksOf, fileOf, isProgram, ROOT, readPage } from "./page.ts";
import { commandsOf, type Done, Shell } from "./shell.ts";

/** Texts of a page and what is there instead here, such as the address of a database. */
export type Instead = Readonly<Record<string, string>>;

/** Runs all of a page that can be run. */
export function followPage(path: string, instead: Instead = {}): Promise<void> {
  return followText(path, readPage(path), instead);
}

/** The same for a text that is no file. */
export async function followText(path: string, page: string, instead: Instead = {}): Promise<void> {
  const replaced = Object.entries(instead).reduce((all, [from, to]) => all.replaceAll(from, to), page);
  const ports = await portsFor(replaced);
  const text = [...ports].reduce((all, [from, to]) => all.replaceAll(portPattern(from), `$1${to}`), replaced);
  const place = makePlace();
  const env = { RONDO_PORT: ports.get("7777") as string, PATH: place.path, HOME: place.notes, NO_COLOR: "1" };
  const shell = new Shell({ cwd: place.cwd, notes: place.notes, env: { ...cleanEnvironment(), ...env } });
  onTestFinished(async () => {
    await shell.close();
    rmSync(place.folder, { recursive: true, force: true });
  });
  const blocks = blocksOf(text).filter(({ notRun }) => notRun === null);
  let last: Done | null = null;
  for (const block of blocks) {
    const at = `${path}:${block.line}`;
    for (const command of block.first) await runWell(shell, command, at);
    last = (await followBlock(shell, block, { at, cwd: place.cwd, last })) ?? last;
  }
  for (const { command, status, said } of await shell.ends()) {
    const isKilled = blocks.some(({ text: commands }) => /^kill -9 \$!/m.test(commands));
    expect(isKilled ? [0, 137] : [0], `${path}: ${command}\n${said}`).toContain(status);
  }
}

async function followBlock(
  shell: Shell,
  block: Block,
  { at, cwd, last }: { at: string; cwd: string; last: Done | null },
): Promise<Done | null> {
  if (block.file !== null || isProgram(block)) {
    const file = join(cwd, fileOf(block));
    mkdirSync(dirname(file), { recursive: true });
    writeFileSync(file, block.text);
  }
  switch (block.language) {
    case "ts":
    case "js":
      return isProgram(block)
        ? await runWell(shell, `node --import rondo/register ${fileOf(block)}`, at)
        : null;
    case "sh":
      // A worker in another language looks for a server at the usual port.
      return await runAll(
        shell,
        block.text.replaceAll(/^python3 /gm, "RONDO_URL=http://127.0.0.1:$RONDO_PORT python3 "),
        at,
      );
    case "json":
      checkData(JSON.parse(block.text), at);
      return null;
    case "yaml":
      checkData(parse(block.text), at);
      return null;
    case "text":
      expectOutput(block.text, last, at);
      return null;
    case "py":
      expect(block.file, `${at}: has no name, so nobody runs it`).not.toBeNull();
      return null;
    default:
      throw new Error(`${at}: nobody knows how to run "${block.language}"; say <!-- not run: why -->`);
  }
}

/** Looks at whether it listens; it may also have ended before. */
const LOOKS_MAX = 20;

async function runAll(shell: Shell, text: string, at: string): Promise<Done> {
  let all = { status: 0, stdout: "", stderr: "" };
  for (const command of commandsOf(text)) {
    const { stdout, stderr } = await runWell(shell, command, at);
    all = { status: 0, stdout: all.stdout + stdout, stderr: all.stderr + stderr };
    if (/^rondo .*&$/.test(command.trim())) await untilItListens(shell);
  }
  return all;
}

/** A person is not as quick as a shell: what is started in the background listens before the next line is typed. */
async function untilItListens(shell: Shell): Promise<void> {
  for (let tries = 0; tries < LOOKS_MAX; tries++) if ((await shell.run("rondo ps")).status === 0) return;
}

/** A command ends with 0, unless it says `# ... exit code 1`. */
async function runWell(shell: Shell, command: string, at: string): Promise<Done> {
  const done = await shell.run(command);
  const wanted = Number(/#.*\bexit code (\d+)/.exec(command)?.[1] ?? "0");
  if (done.status === wanted) return done;
  const said = `${done.stdout}${done.stderr}`;
  throw new Error(`${at}: it ended with ${done.status}, not ${wanted}: ${command}\n${said}`);
}

/** Shown lines are there in their order; `…` stands for anything. */
function expectOutput(shown: string, last: Done | null, at: string): void {
  const said = `${last?.stdout ?? ""}\n${last?.stderr ?? ""}`.split("\n").map((line) => line.trimEnd());
  let from = 0;
  for (const line of shown.split("\n").filter((one) => one.trim() !== "" && one.trim() !== "…")) {
    const pattern = new RegExp(`^${line.trimEnd().split("…").map(escapeText).join(".*")}$`);
    const found = said.findIndex((one, i) => i >= from && pattern.test(one));
    expect(found, `${at}: "${line}" is not in\n${said.join("\n")}`).toBeGreaterThanOrEqual(0);
    from = found + 1;
  }
}

function escapeText(text: string): string {
  return text.replaceAll(/[$()*+.?[\\\]^{|}]/g, "\\$&");
}

/** A definition is held against its own rules. */
function checkData(value: unknown, at: string): void {
  if (typeof value !== "object" || value === null || !("rondo" in value)) return;
  const parsed = parseDefinition(value);
  if (isRejection(parsed)) throw new Error(`${at}: ${parsed.message}`);
}

function makePlace(): { folder: string; cwd: string; notes: string; path: string } {
  const folder = realpathSync(mkdtempSync(join(tmpdir(), "rondo-docs-")));
  const [cwd, notes, bin] = [join(folder, "here"), join(folder, "notes"), join(folder, "bin")];
  for (const one of [notes, bin, join(cwd, "node_modules")]) mkdirSync(one, { recursive: true });
  writeFileSync(join(cwd, "package.json"), '{ "type": "module" }\n');
  symlinkSync(ROOT, join(cwd, "node_modules", "rondo"));
  symlinkSync(join(ROOT, "node_modules", "zod"), join(cwd, "node_modules", "zod"));
  symlinkSync(join(ROOT, "examples"), join(cwd, "examples"));
  for (const [name, command] of Object.entries({ rondo: `"${ROOT}/bin/rondo.js"`, node: "" })) {
    writeFileSync(join(bin, name), `#!/bin/sh\nexec "${process.execPath}" ${command} "$@"\n`);
    chmodSync(join(bin, name), 0o755);
  }
  return { folder, cwd, notes, path: `${bin}${delimiter}${process.env["PATH"] ?? ""}` };
}

function cleanEnvironment(): Record<string, string> {
  const entries = Object.entries(process.env).filter(
    ([name]) => !/^(?:RONDO_|npm_|NODE_|VITEST|CI$|FORCE_COLOR$)/.test(name),
  );
  return Object.fromEntries(entries) as Record<string, string>;
}

/** Ports that a page names, each with one that is free. */
async function portsFor(text: string): Promise<Map<string, string>> {
  const found = Array.from(text.matchAll(portPattern("7\\d{3}")), ([all, before = ""]) =>
    all.slice(before.length),
  );
  const named = new Set(["7777", ...found]);
  const free = await freePorts(named.size);
  return new Map([...named].map((port, i) => [port, String(free[i])]));
}

function portPattern(port: string): RegExp {
  return new RegExp(`((?:127\\.0\\.0\\.1|localhost):|(?:--port |_PORT=))${port}\\b`, "g");
}
