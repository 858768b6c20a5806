// What pages say in passing is true as well: verbs and flags, variables, links, and what is not run is on a short list.
import { existsSync, readFileSync } from "node:fs";
import { dirname, join, normalize } from "node:path";
import type { Command } from "commander";
import { describe, expect, test } from "vitest";
import { buildProgram } from "../../src/cli/program/program.ts";
import { SETTINGS } from "../../src/config/settings.ts";
import { allPages, blocksOf, ROOT, readPage } from "../fixtures/docs/page-fixture.ts";
import { commandsOf, stays } from "../fixtures/docs/shell-fixture.ts";

/** Pages and the test that follows them; those without commands and code need none. */
const FOLLOWED: Readonly<Record<string, string>> = {
  "README.md": "test/docs/cluster.test.ts",
  "docs/operate.md": "test/docs/cluster.test.ts",
  "docs/guides/cluster.md": "test/docs/cluster.test.ts",
  "docs/commands.md": "test/broker/commands/guide.test.ts",
  "docs/start.md": "test/docs/start.test.ts",
  "docs/reference.md": "test/cli/reference.test.ts",
  "docs/explanation/one-execution.md": "test/docs/start.test.ts",
  "docs/explanation/ring.md": "test/docs/start.test.ts",
  "docs/guides/dynamic-tasks.md": "test/docs/more-guides.test.ts",
  "docs/guides/endings.md": "test/docs/guides.test.ts",
  "docs/guides/fan-out.md": "test/docs/guides.test.ts",
  "docs/guides/retries.md": "test/docs/guides.test.ts",
  "docs/guides/talk.md": "test/docs/guides.test.ts",
  "docs/guides/timers-and-signals.md": "test/docs/guides.test.ts",
  "docs/guides/events.md": "test/docs/guides.test.ts",
  "docs/guides/steps.md": "test/docs/guides.test.ts",
  "docs/guides/flows.md": "test/docs/guides.test.ts",
  "docs/guides/scripts.md": "test/docs/more-guides.test.ts",
  "docs/guides/children.md": "test/docs/more-guides.test.ts",
  "docs/guides/limits-and-fairness.md": "test/docs/more-guides.test.ts",
  "docs/guides/agents.md": "test/docs/more-guides.test.ts",
  "docs/guides/browsers.md": "test/docs/more-guides.test.ts",
  "docs/guides/coming-from.md": "test/docs/more-guides.test.ts",
  "docs/guides/installing.md": "test/sdk/bundle.test.ts",
  "docs/guides/middleware.md": "test/docs/more-guides.test.ts",
  "docs/guides/opentelemetry.md": "test/sdk/rondo/telemetry.test.ts",
  "docs/guides/programs.md": "test/docs/more-guides.test.ts",
  "docs/guides/deploys.md": "test/docs/more-guides.test.ts",
  "docs/guides/testing.md": "test/docs/more-guides.test.ts",
  "docs/guides/python-workers.md": "test/docs/more-guides.test.ts",
  "docs/protocol.md": "test/docs/more-guides.test.ts",
  "docs/post-operations.md": "test/docs/more-guides.test.ts",
};

/** What no test runs, and why. A short list: add to it only what cannot be run anywhere. */
const NOT_RUN = [
  "README.md: installs from the network, and is what CI does",
  "docs/guides/coming-from.md: it is a program of BullMQ",
  "docs/guides/coming-from.md: it is a program of Temporal",
  "docs/guides/coming-from.md: it is a program of Inngest",
  "docs/guides/coming-from.md: it is a definition of Step Functions",
  "docs/guides/installing.md: it needs a bundler",
  "docs/guides/installing.md: it is a part of a Next.js project",
  "docs/guides/installing.md: it is a part of a Next.js project",
  "docs/guides/opentelemetry.md: installs from the network",
  "docs/guides/opentelemetry.md: it needs the packages above, and a collector",
  "docs/operate.md: it needs two servers",
  "docs/operate.md: it needs two servers",
  "docs/operate.md: it is a part of pgbouncer.ini",
  "docs/operate.md: it is a part of Patroni's configuration",
  "docs/operate.md: it installs packages",
  "docs/operate.md: it needs the rights of the broker's operator",
  "docs/start.md: installs from the network",
  "docs/start.md: installs from the network",
];

/** Verbs that read their flags themselves. */
const FLAGS_OF_THEIR_OWN = ["sim", "bench"];

const pages = allPages();

test("llms.txt lists every page, and links to pages only", () => {
  const text = readFileSync(join(ROOT, "llms.txt"), "utf8");
  const linked = Array.from(text.matchAll(/\]\(([^)]+)\)/g), ([, target]) => target as string);
  for (const target of linked) expect(existsSync(join(ROOT, target)), target).toBe(true);
  const described = pages.filter(
    (path) => !/decisions|docs\/README|seeds\.md|examples|^deploy|readme/.test(path),
  );
  expect(described.filter((path) => !linked.includes(path))).toEqual([]);
});

test("every page with code is followed by a test", () => {
  const withCode = pages.filter((path) => blocksOf(readPage(path)).length > 0);
  expect(Object.keys(FOLLOWED).toSorted()).toEqual(withCode);
  for (const file of Object.values(FOLLOWED)) expect(existsSync(join(ROOT, file)), file).toBe(true);
});

test("every fence is one of a block: none is indented, or named so that nobody would run it", () => {
  for (const path of pages) {
    const text = readPage(path);
    const fences = text.match(/^\s*(?:```|~~~)/gm) ?? [];
    expect(fences, path).toHaveLength(2 * blocksOf(text).length);
  }
});

test("what is not run is on the list, with its reason", () => {
  const notRun = pages.flatMap((path) =>
    blocksOf(readPage(path)).flatMap(({ notRun: why }) => (why === null ? [] : [`${path}: ${why}`])),
  );
  expect(notRun).toEqual(NOT_RUN);
});

describe.each(pages)("%s", (path) => {
  const text = readPage(path);

  test("names verbs and flags that there are", () => {
    const wrong = [...commandsIn(text)].flatMap((command) => {
      const [verb, rest] = verbOf(command);
      if (verb === undefined) return [command];
      if (FLAGS_OF_THEIR_OWN.includes(verb.name())) return [];
      const flags = new Set(verb.options.flatMap(({ long, short }) => [long, short]));
      return Array.from(rest.matchAll(/(?<=\s)--[a-z-]+/g), ([flag]) => flag)
        .filter((flag) => !flags.has(flag) && flag !== "--help")
        .map((flag) => `${command}: no ${flag}`);
    });
    expect(wrong).toEqual([]);
  });

  test("names variables that there are", () => {
    const known = new Set(Object.values(SETTINGS as Record<string, { env?: string }>).map(({ env }) => env));
    known.add("RONDO_CONFIG");
    const named = Array.from(text.matchAll(/\bRONDO_[A-Z_]+\b/g), ([name]) => name);
    expect(named.filter((name) => !known.has(name))).toEqual([]);
  });

  test("says before a block when to go on after a command that stays", () => {
    const unsaid = blocksOf(text).filter((block) => {
      if (
        block.language !== "sh" ||
        block.notRun !== null ||
        !commandsOf(block.text).slice(0, -1).some(stays)
      )
        return false;
      const above =
        text
          .split("\n")
          .slice(0, block.line - 1)
          .join("\n")
          .trimEnd()
          .split("\n\n")
          .at(-1) ?? "";
      return !(/\b(?:once|when)\b/i.test(above) && /\bterminal/.test(above));
    });
    expect(unsaid.map(({ line, text: commands }) => `${path}:${line}\n${commands}`)).toEqual([]);
  });

  test("links to what is there", () => {
    const links = Array.from(text.matchAll(/\]\((?!https?:)([^)#\s]*)(#[^)\s]+)?\)/g), ([, to = "", at]) => ({
      to,
      at,
    }));
    const wrong = links.filter(({ to, at }) => {
      const target = to === "" ? path : normalize(join(dirname(path), to));
      if (!existsSync(join(ROOT, target))) return true;
      return at !== undefined && !headingsOf(readPage(target)).has(at);
    });
    expect(wrong).toEqual([]);
  });
});

/** Commands of Rondo in code, inline or not; those in blocks that are not run too. */
function commandsIn(text: string): Set<string> {
  const blocks = blocksOf(text).filter(({ language }) => language === "sh");
  const inline = Array.from(
    text.replaceAll(/^```[\s\S]*?^```$/gm, "").matchAll(/`([^`]+)`/g),
    ([, code = ""]) => code,
  );
  const lines = [...inline, ...blocks.flatMap(({ text: commands }) => commands.split("\n"))];
  return new Set(
    lines.flatMap((line) =>
      Array.from(line.matchAll(/(?:^|[|&(] *|npx )(rondo [a-z][^|&#]*)/g), ([, all = ""]) => all.trim()),
    ),
  );
}

function verbOf(command: string): [verb: Command | undefined, rest: string] {
  const words = command.split(/\s+/).slice(1);
  let at: Command = buildProgram(() => {});
  for (;;) {
    const inner = at.commands.find((one) => one.name() === words[0]);
    if (inner === undefined) break;
    at = inner;
    words.shift();
  }
  return [at.name() === "rondo" ? undefined : at, ` ${words.join(" ")}`];
}

/** Anchors as they are made from headings. */
function headingsOf(text: string): Set<string> {
  const headings = Array.from(text.matchAll(/^#+ (.+)$/gm), ([, heading = ""]) => heading);
  return new Set(
    headings.map(
      (one) =>
        `#${one
          .toLowerCase()
          .replaceAll(/[^\w\s-]/g, "")
          .trim()
          .replaceAll(/\s/g, "-")}`,
    ),
  );
}
