/**
 * Runs shell commands side by side: in-parallel.mjs COMMAND [COMMAND ...]
 * The output of the first is printed as it comes, that of each other one as a whole when it ends. The exit code is 1 if any
 * of them failed; then the end of the output of each failed command is printed once more, and the last line names the commands.
 */
import { spawn } from "node:child_process";

async function run(command, index) {
  const startedAt = Date.now();
  const isShown = index === 0;
  const child = spawn(command, { shell: true, stdio: ["ignore", "pipe", "pipe"] });
  const output = [];
  for (const stream of [child.stdout, child.stderr])
    stream.on("data", (chunk) => {
      if (isShown) process.stdout.write(chunk);
      output.push(chunk);
    });
  const code = await new Promise((resolve) => child.on("close", resolve));
  const seconds = Math.round((Date.now() - startedAt) / 1_000);
  console.log(`\n--> ${command} (${code === 0 ? "ok" : `exit code ${code}`}, ${seconds} s)`);
  const text = Buffer.concat(output).toString();
  if (!isShown) process.stdout.write(text);
  return { command, passed: code === 0, lines: text.split("\n") };
}

/** The lines of a failed command that are repeated at the end, where a reader of a long log looks first. */
const LAST_LINES = 120;

const results = await Promise.all(process.argv.slice(2).map(run));
const failed = results.filter((result) => !result.passed);
if (failed.length > 0) {
  for (const { command, lines } of failed)
    console.log(`\n--> the end of ${command}\n${lines.slice(-LAST_LINES).join("\n")}`);
  console.log(`\nfailed: ${failed.map((result) => result.command).join("; ")}`);
  process.exitCode = 1;
}
