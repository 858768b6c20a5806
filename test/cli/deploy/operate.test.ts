// docs/operate.md names nothing that is not there.
import { existsSync, readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { buildProgram } from "../../../src/cli/program/program.ts";
import { SETTINGS } from "../../../src/config/settings.ts";

const text = readFileSync("docs/operate.md", "utf8");

describe("docs/operate.md", () => {
  test("explains every metric, and no other", () => {
    const source = readFileSync("src/server/metrics.ts", "utf8");
    const there = new Set([...source.matchAll(/"(rondo_[a-z_]+)"/g)].map(([, name]) => name));
    expect(there.size).toBeGreaterThan(10);
    const explained = new Set([...text.matchAll(/^\| `(rondo_[a-z_]+)/gm)].map(([, name]) => name));
    expect(explained).toEqual(there);
    for (const [name] of text.matchAll(/rondo_[a-z]+_[a-z_]+/g)) expect([...there]).toContain(name);
  });

  test("names verbs and flags that there are", () => {
    const program = buildProgram(() => {});
    for (const [, name = "", rest = ""] of text.matchAll(/\brondo ([a-z]+)\b([^`|\n]*)/g)) {
      const verb = program.commands.find((one) => one.name() === name);
      expect(verb, `rondo ${name}`).toBeDefined();
      const [first = ""] = rest.trim().split(" ");
      const inner = verb?.commands.find((one) => one.name() === first) ?? verb;
      const flags = inner?.options.map(({ long }) => long);
      for (const [flag] of rest.matchAll(/--[a-z-]+/g)) expect(flags, `rondo ${name}`).toContain(flag);
    }
  });

  test("names variables and settings that there are, and files that exist", () => {
    const known = Object.values(SETTINGS as Record<string, { env?: string }>).map(({ env }) => env);
    for (const [, name] of text.matchAll(/\b(RONDO_[A-Z_]+)\b/g)) expect(known).toContain(name);
    const limits = readFileSync("src/config/settings.ts", "utf8");
    for (const [, name] of text.matchAll(/`limits\.([A-Za-z]+)`/g))
      expect(limits).toContain(`${name}?: number`);
    for (const [, path = ""] of text.matchAll(/\]\(\.\.\/([^)]+)\)/g))
      expect(existsSync(path), path).toBe(true);
  });
});
