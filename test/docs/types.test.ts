// All TypeScript of the documentation is held against the types that the package has, by one run of the compiler.
import { spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, realpathSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { allPages, blocksOf, fileOf, ROOT, readPage } from "../fixtures/docs/page-fixture.ts";

const OPTIONS = {
  target: "es2023",
  lib: ["es2024", "esnext.disposable"],
  module: "nodenext",
  strict: true,
  noEmit: true,
  skipLibCheck: true,
  types: ["node"],
  allowImportingTsExtensions: true,
};

test("every page's code fits the types", () => {
  const place = realpathSync(mkdtempSync(join(tmpdir(), "rondo-types-")));
  onTestFinished(() => rmSync(place, { recursive: true, force: true }));
  mkdirSync(join(place, "node_modules"));
  symlinkSync(ROOT, join(place, "node_modules", "rondo"));
  for (const name of ["zod", "@types"])
    symlinkSync(join(ROOT, "node_modules", name), join(place, "node_modules", name));
  writeFileSync(join(place, "package.json"), '{ "type": "module" }');
  writeFileSync(
    join(place, "tsconfig.json"),
    JSON.stringify({ compilerOptions: OPTIONS, include: ["pages"] }),
  );
  let count = 0;
  for (const path of allPages())
    for (const block of blocksOf(readPage(path)).filter(({ language }) => language === "ts")) {
      const file = join(place, "pages", path.replaceAll(/[./]/g, "-"), fileOf(block));
      mkdirSync(dirname(file), { recursive: true });
      // A module, whatever is in it, so that names of one block are not those of another.
      writeFileSync(file, `${block.text}\nexport {};\n`);
      count++;
    }
  expect(count).toBeGreaterThan(20);
  const tsc = join(ROOT, "node_modules", ".bin", "tsc");
  const { status, stdout } = spawnSync(tsc, ["-p", place], { cwd: place, encoding: "utf8" });
  expect(`${status}\n${stdout}`).toBe("0\n");
}, 120_000);
