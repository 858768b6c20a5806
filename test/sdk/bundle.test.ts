// A program that a bundler has put into one file, with Rondo inside: it finds the thread of the store in the installed package.
import { execFileSync } from "node:child_process";
import { mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { build } from "vite";
import { expect, test } from "vitest";
import { temporaryDirectory } from "../fixtures/temporary-directory-fixture.ts";

const PROGRAM = `
import { openRondo, workflow } from "rondo";
const w = workflow({ name: "bundled" }).phase("a", { process: ({ input }) => input.n * 2 });
const rondo = await openRondo({ store: "file:" + process.argv[2], server: { port: 0 } });
rondo.serve(w);
console.log(await rondo.run(w, { n: 21 }), (await fetch(rondo.url)).status, (await rondo.workers.list()).length);
await rondo.close();
`;

/** Packages with native code or of their own files, which stay outside of the bundle. */
const OUTSIDE = ["libsql", "pg", "amqplib", "jiti", "yaml"];

test("a bundle of a program runs with a store in a directory, and serves the dashboard", async () => {
  const folder = temporaryDirectory();
  mkdirSync(join(folder, "node_modules"));
  for (const name of OUTSIDE) symlinkSync(resolve("node_modules", name), join(folder, "node_modules", name));
  symlinkSync(resolve("."), join(folder, "node_modules/rondo"));
  writeFileSync(join(folder, "package.json"), '{ "name": "program", "type": "module" }');
  writeFileSync(join(folder, "program.js"), PROGRAM);
  await build({
    root: folder,
    logLevel: "silent",
    configFile: false,
    build: {
      ssr: join(folder, "program.js"),
      outDir: join(folder, "out"),
      target: "node20",
      rolldownOptions: { output: { codeSplitting: false } },
    },
    ssr: { noExternal: true, external: [...OUTSIDE, "redis"] },
  });
  const out = execFileSync(process.execPath, ["out/program.js", join(folder, "store")], {
    cwd: folder,
    encoding: "utf8",
  });
  expect(out).toBe("42 200 1\n");
}, 120_000);
