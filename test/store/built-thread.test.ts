import { readdirSync, statSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";

// On Node 20 the store's thread runs from dist/ also in tests, so an old build would test old code.
test("dist/ is as new as the sources of the SQLite store (else: npm run build)", () => {
  const folder = join("src", "store", "sqlite");
  const sources = readdirSync(folder).filter((file) => !file.endsWith(".test.ts"));
  const old = sources.filter((file) => {
    const built = join("dist", "store", "sqlite", file.replace(/\.ts$/, ".js"));
    const builtAt = statSync(built, { throwIfNoEntry: false })?.mtimeMs ?? 0;
    return builtAt < statSync(join(folder, file)).mtimeMs;
  });
  expect(old).toEqual([]);
});
