#!/usr/bin/env node
// Starts the compiled CLI. Says what to do when it has not been built yet.
import { existsSync } from "node:fs";
import module from "node:module";

const main = new URL("../dist/src/cli/main.js", import.meta.url);

if (existsSync(main)) {
  module.enableCompileCache?.(); // Node >= 22.1
  await import(main.href);
} else {
  console.error(
    "rondo: not built yet (dist/ is missing). Run `npm install`, or `npm run build`, and try again.",
  );
  process.exitCode = 1;
}
