/**
 * Runs shell commands side by side: in-parallel.mjs COMMAND [COMMAND ...]
 * The output of the first is printed as it comes, that of each other one as a whole when it ends. The exit code is 1 if any
 * of them failed; then the last line names those.
 */
import { spawn } from "node:child_process";

async function run(command, index) {
  const startedAt = Date.now();
  const isShown = index === 0;
  const child = spawn(command, { shell: true, stdio: ["ignore", "pipe", "pipe"] });
  const output = [];
  for (const stream of [child.stdout, child.stderr])
    stream.on("data", (chunk) => (isShown ? process.stdout.write(chunk) : output.push(chunk)));
  const code = await new Promise((resolve) => child.on("close", resolve));
  const seconds = Math.round((Date.now() - startedAt) / 1_000);
  console.log(`\n--> ${command} (${code === 0 ? "ok" : `exit code ${code}`}, ${seconds} s)`);
  process.stdout.write(Buffer.concat(output));
  return code === 0;
}

const commands = process.argv.slice(2);
const passed = await Promise.all(commands.map(run));
const failed = commands.filter((_, index) => !passed[index]);
if (failed.length > 0) {
  console.log(`\nfailed: ${failed.join("; ")}`);
  process.exitCode = 1;
}
