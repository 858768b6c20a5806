// The SDK runs in browsers: nothing that its files import by value, directly or through others, may be of Node.
import { readdirSync, readFileSync } from "node:fs";
import { posix } from "node:path";
import { expect, test } from "vitest";

/** Targets of imports and exports that are still there when types are erased. */
function valueImports(path: string): string[] {
  const pattern = /^(?:import|export)\s(?!type\b)(?:[^;"]*\sfrom\s)?"([^"]+)";/gm;
  return Array.from(readFileSync(path, "utf8").matchAll(pattern), (match) => match[1] as string);
}

test("no module of Node is reached from src/sdk", () => {
  const paths = new Set(
    readdirSync("src/sdk")
      .filter((file) => !file.endsWith(".test.ts"))
      .map((file) => `src/sdk/${file}`),
  );
  expect(paths.size).toBeGreaterThan(10);
  const foreign: string[] = [];
  for (const path of paths) {
    for (const target of valueImports(path)) {
      if (target.startsWith(".")) paths.add(posix.join(posix.dirname(path), target));
      else foreign.push(`${path}: ${target}`);
    }
  }
  expect(paths).toContain("src/std/json.ts");
  expect(foreign).toEqual([]);
});
