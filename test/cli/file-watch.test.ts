// What `rondo dev` follows: a file, what it imports, and what it would import if it were there.
import { mkdirSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { importGraph } from "../../src/cli/dev/dev.ts";
import { FileWatch } from "../../src/cli/dev/file-watch.ts";
import { folder } from "../fixtures/cli/cli-process-fixture.ts";

test("imports are followed from file to file, packages are not, and what is missing is waited for", () => {
  const cwd = folder({
    "flow.ts": `
      import { workflow } from "rondo";
      import { a } from "./lib/a";
      export * from './b.js';
      import "./side-effect.mjs";
      const c = await import("../outside.ts");
      const d = require("./data.json");`,
    "lib/a.ts": 'import type { T } from "./t.ts"; import { flow } from "../flow.ts"; export const a = 1;',
    "lib/t.ts": "export type T = 1;",
    "b.ts": 'import { m } from "./missing";',
    "side-effect.mjs": "",
    "data.json": '{ "not": "from \\"./x\\"" }',
  });
  const found = importGraph([join(cwd, "flow.ts")]);
  const names = ["flow.ts", "lib/a.ts", "b.ts", "side-effect.mjs", "../outside.ts", "data.json", "lib/t.ts"];
  expect(found).toEqual(expect.arrayContaining(names.map((name) => join(cwd, name))));
  expect(found).toEqual(
    expect.arrayContaining(["missing.ts", "missing/index.ts"].map((name) => join(cwd, name))),
  );
  expect(found.filter((path) => !/missing|outside/.test(path))).toHaveLength(6);
});

test("a change is told once per burst, with the files whose content is another", async () => {
  const cwd = folder({ "a.ts": "1", "b.ts": "1", "c.ts": "1" });
  mkdirSync(join(cwd, "deep"));
  const at = (name: string) => join(cwd, name);
  const told: (readonly string[])[] = [];
  let wake: () => void = () => {};
  const watch = new FileWatch((changed) => {
    told.push(changed);
    wake();
  });
  onTestFinished(() => watch.close());
  const news = () =>
    new Promise<void>((resolve) => {
      wake = resolve;
    });
  watch.follow([at("a.ts"), at("b.ts"), at("deep/new.ts")]);

  let next = news();
  writeFileSync(at("c.ts"), "2");
  writeFileSync(at("b.ts"), "1");
  writeFileSync(at("a.tmp"), "2");
  renameSync(at("a.tmp"), at("a.ts"));
  await next;
  next = news();
  writeFileSync(at("deep/new.ts"), "1");
  await next;
  expect(told).toEqual([[at("a.ts")], [at("deep/new.ts")]]);
});
