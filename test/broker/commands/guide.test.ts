// docs/commands.md as its readers follow it: its files are written, its commands are run, in their order. And the example.
import { spawnSync } from "node:child_process";
import { chmodSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type { WorkflowDocument } from "rondo/client";
import { expect, test } from "vitest";
import { type CliProcess, folder, startCli } from "../../fixtures/cli/cli-process-fixture.ts";
import { needCommand } from "../../fixtures/need-command.ts";

const ROOT = fileURLToPath(new URL("../../..", import.meta.url));
const GUIDE = readFileSync(join(ROOT, "docs/commands.md"), "utf8");
const ADDRESS = "http://127.0.0.1:7777";
const hasCurl = needCommand("curl", "curl");

interface Block {
  readonly language: string;
  readonly file: string | undefined;
  readonly text: string;
}

function blocksOf(markdown: string): Block[] {
  return Array.from(markdown.matchAll(/^```(\w+)(?: (\S+))?\n([\s\S]*?)^```$/gm), (match) => ({
    language: match[1] as string,
    file: match[2],
    text: match[3] as string,
  }));
}

/** A folder with the files of a guide, with Rondo installed, and with a `rondo` that can be called by name. */
function follow(blocks: readonly Block[]): { cwd: string; env: Record<string, string> } {
  const cwd = folder();
  for (const { file, text } of blocks) if (file !== undefined) writeFileSync(join(cwd, file), text);
  writeFileSync(join(cwd, "package.json"), '{ "type": "module" }\n');
  mkdirSync(join(cwd, "node_modules"));
  symlinkSync(ROOT, join(cwd, "node_modules", "rondo"));
  const bin = join(cwd, "bin");
  mkdirSync(bin);
  writeFileSync(join(bin, "rondo"), `#!/bin/sh\nexec "${process.execPath}" "${ROOT}/bin/rondo.js" "$@"\n`);
  chmodSync(join(bin, "rondo"), 0o755);
  const path = `${bin}:${process.env["PATH"] ?? ""}`;
  return { cwd, env: { PATH: path, RONDO_PORT: "0", NO_COLOR: "1" } };
}

test.skipIf(!hasCurl)("every command of the guide does what it says", async () => {
  const blocks = blocksOf(GUIDE);
  const { cwd, env } = follow(blocks);
  let url = "";
  let server: CliProcess | null = null;
  const outputs: string[] = [];
  for (const { language, text } of blocks) {
    if (language !== "sh") continue;
    const served = /^rondo (dev .*)\n/.exec(text);
    if (served !== null) {
      server = startCli((served[1] as string).split(" "), { cwd, env });
      url = await server.line(/^http:/);
      await server.line(/^worker .* serves /);
    }
    const script = text.slice(served?.[0].length ?? 0).replaceAll(ADDRESS, url);
    const { status, stdout, stderr } = spawnSync("sh", ["-ec", script], { cwd, env, encoding: "utf8" });
    expect(`${status}\n${status === 0 ? "" : script + stderr}`).toBe("0\n");
    outputs.push(stdout);
  }
  const [first, piped, whole, http, enriched, run] = outputs as [
    string,
    string,
    string,
    string,
    string,
    string,
  ];
  const results = ({ steps }: WorkflowDocument) => steps.map(({ cmd }) => cmd.cmd_result);
  expect(results(JSON.parse(first) as WorkflowDocument)).toEqual([
    { vectors: 1024, at: "embeddings/lxi" },
    { index: "embeddings/lxi.idx", entries: 1024 },
  ]);
  expect(piped).toMatch(/^\{"workflow_id":"ex_/);
  expect(piped).toContain("step-1");
  expect(whole).toBe("nightly-1\nnull\n");
  expect(http).toContain('"workflow_id":"first"');
  expect(http).toContain('"project-x":{"workflows":[');
  expect(results(JSON.parse(enriched) as WorkflowDocument)).toEqual([
    { vectors: 1024, at: "embeddings/lxi", __metadata__: { project_id: "project-x" } },
  ]);
  expect(run).toBe('{"embedded":2}\n');

  // The program of the guide, run as the guide says; it finds the server by RONDO_URL.
  const command = /`(node --import rondo\/register submit\.ts)`/.exec(GUIDE)?.[1] ?? "";
  const told = spawnSync("sh", ["-ec", command], { cwd, env: { ...env, RONDO_URL: url }, encoding: "utf8" });
  expect(told.stderr).toBe("");
  expect(told.stdout).toMatch(/^COMPLETE \{ vectors: 1024, at: 'embeddings\/lxi' \}\nex_\w+\n/);
  expect(told.stdout).toMatch(/^nightly-1\n/m);
  server?.kill("SIGTERM");
  await server?.ended;
});

test("the example runs by one command", () => {
  const { status, stdout, stderr } = spawnSync("sh", ["examples/commands/run.sh"], {
    cwd: ROOT,
    encoding: "utf8",
  });
  expect(`${status}\n${status === 0 ? "" : stderr}`).toBe("0\n");
  const document = JSON.parse(
    stdout.split("\n").find((line) => line.startsWith("{")) ?? "",
  ) as WorkflowDocument;
  expect(document.steps.map(({ proc }) => proc.proc_status)).toEqual(["COMPLETE", "COMPLETE", "COMPLETE"]);
  expect(document.steps[2]?.cmd.cmd_result).toEqual({ said: "embeddings/lxi.idx has 1024 entries" });
});
