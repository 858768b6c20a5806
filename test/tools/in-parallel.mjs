/**
 * Runs shell commands side by side: in-parallel.mjs COMMAND [COMMAND ...]
 * The output of each is printed as a whole when it ends. The exit code is 1 if any of them failed.
 */
import { spawn } from "node:child_process";

const run = (command) =>
  new Promise((resolve) => {
    const startedAt = Date.now();
    const child = spawn(command, { shell: true, stdio: ["ignore", "pipe", "pipe"] });
    const output = [];
    for (const stream of [child.stdout, child.stderr]) stream.on("data", (chunk) => output.push(chunk));
    child.on("close", (code) => {
      const seconds = Math.round((Date.now() - startedAt) / 1_000);
      console.log(`\n--> ${command} (${code === 0 ? "ok" : `exit code ${code}`}, ${seconds} s)`);
      process.stdout.write(Buffer.concat(output));
      resolve(code === 0);
    });
  });

const passed = await Promise.all(process.argv.slice(2).map(run));
process.exitCode = passed.every(Boolean) ? 0 : 1;
