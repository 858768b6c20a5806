/**
 * Runs test files: run-files.mjs [--OPTION=VALUE ...] [FILE ...]; options and files are those of `vitest run`.
 * With CI=true, files that failed beside others are run once more alone, if they are few. The run fails if one of them fails
 * again. The last lines name the files that passed only alone: their tests depend on the load of the machine and want mending.
 */
import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** More failures than this are not the machine's. */
const MOST_AGAIN = 5;

/** Runs vitest. Returns whether it passed, and the files with a failure. */
function vitest(args, folder) {
  const report = join(folder, `${process.hrtime.bigint()}.json`);
  const reporters = ["--reporter=default", "--reporter=json", `--outputFile.json=${report}`];
  const { status } = spawnSync("npx", ["vitest", "run", ...args, ...reporters], { stdio: "inherit" });
  if (status === 0) return { passed: true, failed: [] };
  const { testResults } = JSON.parse(readFileSync(report, "utf8"));
  return {
    passed: false,
    failed: testResults.filter((file) => file.status === "failed").map((file) => file.name),
  };
}

function run(args, folder) {
  const first = vitest(args, folder);
  const { failed } = first;
  if (first.passed || process.env.CI !== "true" || failed.length === 0 || failed.length > MOST_AGAIN)
    return first.passed;
  console.log(`\n--> ${failed.length} files failed beside others; they run again alone`);
  const options = args.filter((arg) => arg.startsWith("-"));
  if (!vitest([...options, "--maxWorkers=1", ...failed], folder).passed) return false;
  console.log(`\npassed only when run alone:\n${failed.map((file) => `  ${file}`).join("\n")}`);
  return true;
}

const folder = mkdtempSync(join(tmpdir(), "rondo-report-"));
try {
  process.exitCode = run(process.argv.slice(2), folder) ? 0 : 1;
} finally {
  rmSync(folder, { recursive: true, force: true });
}
