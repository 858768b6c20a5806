// docs/reference.md says all there is. After a change of the commands: UPDATE_REFERENCE=1 npx vitest run test/cli/reference.test.ts
import { readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import type { Command } from "commander";
import { expect, test } from "vitest";
import { EXIT } from "../../src/cli/exit-code.ts";
import { buildProgram } from "../../src/cli/program/program.ts";
import type { Setting } from "../../src/config/setting.ts";
import { SETTINGS } from "../../src/config/settings.ts";
import { DEFAULTS, LIMITS } from "../../src/kernel/definition/definition.ts";
import { OPTIONS } from "../../src/kernel/definition/parse-option.ts";
import { DEFAULT_API_LIMITS } from "../../src/server/parts.ts";
import { showDuration } from "../../src/std/duration.ts";
import { SCRIPT_LIMITS } from "../../src/worker/sandbox/script-attempt.ts";
import { USAGE } from "../../tools/bench/options.ts";
import { DEMO_HELP } from "../../tools/demo/options.ts";
import { SIM_HELP } from "../../tools/sim/main.ts";

const FILE = fileURLToPath(new URL("../../docs/reference.md", import.meta.url));
const text = readFileSync(FILE, "utf8");
/** What `--help` prints for verbs that read their arguments themselves. */
const OWN_HELP: Readonly<Record<string, string>> = { sim: SIM_HELP, bench: USAGE, demo: DEMO_HELP };
const SERVER = ["--url <url>", "--token <token>", "--store <url>", "--json"];

/** Verbs as people type them, those of groups too. */
function verbsOf(group: Command): Command[] {
  return group.commands.flatMap((command) => (command.commands.length === 0 ? [command] : verbsOf(command)));
}

function nameOf(command: Command): string {
  const names: string[] = [];
  for (let at: Command | null = command; at !== null; at = at.parent) names.unshift(at.name());
  const words = command.registeredArguments.map((argument) => {
    const name = argument.name() + (argument.variadic ? "..." : "");
    return argument.required ? `<${name}>` : `[${name}]`;
  });
  return [...names, ...words].join(" ");
}

function describe(command: Command): string {
  const options = command.options.filter(({ hidden }) => !hidden);
  const flags = options.map((option) => option.flags);
  const isRemote = SERVER.every((flag) => flags.includes(flag)) && command.name() !== "run";
  const own = isRemote ? options.filter(({ flags: flag }) => !SERVER.includes(flag)) : options;
  return [
    `### \`${nameOf(command)}\``,
    "",
    `${command.summary()}${isRemote ? " (*server*)" : ""}`,
    ...ownHelp(command),
    ...(own.length === 0 ? [] : ["", ...own.map((option) => `- \`${option.flags}\`: ${option.description}`)]),
    "",
  ].join("\n");
}

/** The help of a verb that reads its arguments itself, since commander knows none of its options. */
function ownHelp(command: Command): string[] {
  if (!command.registeredArguments.some((argument) => argument.name() === "args")) return [];
  const help = OWN_HELP[command.name()];
  if (help === undefined) throw new Error(`the help of rondo ${command.name()} is not known here`);
  return ["", "```text", help.trimEnd(), "```"];
}

test("every command is there with every option, as --help has it", () => {
  const commands = verbsOf(buildProgram(() => {})).map(describe);
  const wanted = `<!-- commands -->\n${commands.join("\n")}<!-- /commands -->`;
  const pattern = /<!-- commands -->[\s\S]*<!-- \/commands -->/;
  if (process.env["UPDATE_REFERENCE"] === "1")
    writeFileSync(
      FILE,
      text.replace(pattern, () => wanted),
    );
  expect(pattern.exec(readFileSync(FILE, "utf8"))?.[0]).toBe(wanted);
  expect(commands.length).toBeGreaterThan(30);
});

test("every setting is there with its origins and its default", () => {
  const code = (value: string | undefined): string => (value === undefined ? "–" : `\`${value}\``);
  const rows = (Object.entries(SETTINGS) as [string, Setting<unknown>][]).map(([name, setting]) => {
    const { env, flag, inFile, fallback, show } = setting;
    const shown = fallback === null ? "–" : code(show?.(fallback) ?? JSON.stringify(fallback));
    const cells = [
      code(name),
      code(env),
      name === "files" ? "arguments" : code(flag && `--${flag}`),
      inFile ? "yes" : "no",
      shown,
    ];
    return `| ${cells.join(" | ")} | `;
  });
  expect(rows.filter((row) => !text.includes(row))).toEqual([]);
  const named = [...text.slice(0, text.indexOf("### `limits`")).matchAll(/^\| `(\w+)` \|/gm)];
  expect(new Set(named.map(([, name]) => name))).toEqual(new Set(Object.keys(SETTINGS)));
  const limits = Object.entries(DEFAULT_API_LIMITS).map(([name, value]) => `| \`${name}\` | ${value} | `);
  expect(limits.filter((row) => !text.includes(row))).toEqual([]);
});

test("every option of a handler is there, and defaults are those of the code", () => {
  const handlers = text.slice(text.indexOf("## Handlers"), text.indexOf("## Commands"));
  const missing = Object.keys(OPTIONS).filter((name) => !handlers.includes(`\`${name}`));
  expect(missing).toEqual([]);
  const { attempts, crashes, retryMinMs, retryMaxMs, heartbeatMs, maxVisits } = DEFAULTS;
  const rows = [
    `| \`retry.attempts\` | ${attempts} |`,
    `| \`retry.crashes\` | ${crashes} |`,
    `| \`retry.min\`, \`retry.max\` | ${showDuration(retryMinMs)}, ${showDuration(retryMaxMs)} |`,
    `| \`heartbeat\` | ${showDuration(heartbeatMs)} |`,
    `| \`maxVisits\` | ${maxVisits} |`,
    `pages of at most ${LIMITS.pageTasks}`,
    `${LIMITS.resultBytes / 1_024} KiB of JSON`,
    `(${showDuration(SCRIPT_LIMITS.timeoutMs)} by default) and ${SCRIPT_LIMITS.memoryBytes / 1_048_576} MiB of memory`,
    `keep ${SCRIPT_LIMITS.logLines} lines or ${SCRIPT_LIMITS.logBytes / 1_048_576} MiB for each attempt`,
  ];
  expect(rows.filter((row) => !handlers.includes(row))).toEqual([]);
});

test.each([
  ["README.md", readFileSync(new URL("../../README.md", import.meta.url), "utf8")],
  ["docs/reference.md", text],
  ["rondo --help", helpOf(buildProgram(() => {}))],
])("%s lists every exit code", (_, where) => {
  const list = /Exit codes: ([^.]*)\./.exec(where)?.[1] ?? "";
  const codes = Array.from(list.matchAll(/(?:^|,\s+)(\d+)\s/g), ([, code]) => Number(code));
  expect(codes).toEqual(Object.values(EXIT));
});

function helpOf(program: Command): string {
  let said = "";
  program.configureOutput({ writeOut: (part) => (said += part) }).outputHelp();
  return said;
}
