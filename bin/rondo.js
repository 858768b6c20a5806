#!/usr/bin/env node
// Starts the CLI from the bundle. Says what to do when it has not been built yet.
import { existsSync } from "node:fs";
import module from "node:module";

// The programs in tools/ share modules with the CLI; they are not in the bundle.
const isTool = ["sim", "bench", "demo"].includes(process.argv[2] ?? "");
const main = new URL(isTool ? "../dist/src/cli/main.js" : "../dist/rondo/main.js", import.meta.url);

if (existsSync(main)) {
  module.enableCompileCache?.(); // Node >= 22.1
  await import(main.href);
} else {
  console.error(
    "rondo: not built yet (dist/ is missing). Run `npm install`, or `npm run build`, and try again.",
  );
  process.exitCode = 1;
}
