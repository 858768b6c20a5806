// `npm run test:runtimes`: packs this repository, installs the package and other runtimes into a folder, and runs a program on each: a store
// in memory and in a directory, a server, a worker of a client, and steps. Not a part of CI: it downloads the runtimes.
import { execFileSync, spawnSync } from "node:child_process";
import { chmodSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";

const PLATFORM = `${process.platform}-${process.arch}`;
/** Runtimes as packages without install scripts, with their programs. */
const RUNTIMES = [
  { name: "Node 22", package: `node-${PLATFORM}@22`, program: "bin/node" },
  { name: "Node 24", package: `node-${PLATFORM}@24`, program: "bin/node" },
  { name: "Bun", package: `@oven/bun-${PLATFORM}`, program: "bin/bun" },
  {
    name: "Deno",
    package: `@deno/${PLATFORM}${process.platform === "linux" ? "-glibc" : ""}`,
    program: "deno",
    args: ["run", "-A"],
    // Its threads cannot run the store of a directory. Rondo says so, and the rest works.
    refusesFiles: "a store in a directory does not work in Deno",
  },
];
/** The runtimes that were named as arguments; all if there are none. */
const CHOSEN = RUNTIMES.filter(({ name }) => process.argv.length < 3 || process.argv.includes(name));

const PROGRAM = `
import { openRondo, flow, workflow } from "rondo";
import { connect } from "rondo/client";
import { testRondo } from "rondo/testing";

const sum = workflow({ name: "sum" })
  .phase("add", { enumerate: ({ input }) => input.numbers, process: ({ task }) => task * 2 })
  .returns(({ phases }) => phases.add.reduce((a, b) => a + b, 0));
const order = flow("order", async ({ step, sleep }) => {
  const one = await step("one", () => 1);
  await sleep("a while", "10ms");
  return one + (await step("two", () => 2));
});
const same = (found, wanted) => {
  if (JSON.stringify(found) !== JSON.stringify(wanted)) throw new Error(\`\${JSON.stringify(found)} is not \${JSON.stringify(wanted)}\`);
};
for (const store of process.argv[2] === undefined ? ["memory:"] : ["memory:", \`file:\${process.argv[2]}\`]) {
  const rondo = await openRondo({ store, server: { port: 0 } });
  rondo.serve(sum, order);
  same(await rondo.run(sum, { numbers: [1, 2, 3] }), 12);
  same(await rondo.run(order, null), 3);
  const client = connect({ url: rondo.url });
  const far = workflow({ name: "far" }).phase("a", { process: () => "far" });
  const worker = await client.serve(far, { capacity: 2 });
  same(await client.run(far, null), "far");
  same((await client.list({ status: "done" })).data.length, 3);
  await client.close();
  same(worker.id !== "", true);
  await rondo.close();
}
const t = await testRondo({ workflows: [sum] });
same(await t.run(sum, { numbers: [4] }), 8);
await t.close();
console.log("ok");
process.exit(0);
`;

/** The two ways of docs/guides/installing.md to bundle a program. */
const BUNDLES = [
  ["--packages=external"],
  ["libsql", "pg", "amqplib", "jiti", "yaml", "@jitl/*", "quickjs-emscripten-core"].map(
    (name) => `--external:${name}`,
  ),
];

/** Bundles the program by esbuild and runs it with Node. Returns how many bundles failed. */
function bundle(place) {
  const own = join(place, "bundler");
  const install = ["install", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix", own, "esbuild"];
  execFileSync("npm", install, { stdio: "ignore" });
  let failed = 0;
  for (const [i, options] of BUNDLES.entries()) {
    const out = `out-${i}/program.mjs`;
    const common = ["program.mjs", "--bundle", "--platform=node", "--format=esm", `--outfile=${out}`];
    const esbuild = join(own, "node_modules/esbuild/bin/esbuild");
    const built = spawnSync(process.execPath, [esbuild, ...common, ...options], {
      cwd: place,
      encoding: "utf8",
    });
    const ran = spawnSync(process.execPath, [out, join(place, `bundled-${i}`)], {
      cwd: place,
      encoding: "utf8",
      timeout: 120_000,
    });
    const isOk = built.status === 0 && ran.status === 0 && ran.stdout.includes("ok");
    if (!isOk) failed++;
    const why = isOk ? "" : `\n${built.stderr}${ran.stdout}${ran.stderr}`;
    console.log(`${isOk ? "ok    " : "FAILED"} a bundle by esbuild ${options[0]}${why}`);
  }
  return failed;
}

const folder = mkdtempSync(join(tmpdir(), "rondo-runtimes-"));
try {
  execFileSync("npm", ["pack", "--pack-destination", folder, "--ignore-scripts"], {
    cwd: resolve("."),
    stdio: "ignore",
  });
  const [tarball] = readdirSync(folder);
  writeFileSync(join(folder, "package.json"), '{ "type": "module", "private": true }');
  writeFileSync(join(folder, "program.mjs"), PROGRAM);
  execFileSync("npm", ["install", "--no-audit", "--no-fund", "--ignore-scripts", join(folder, tarball)], {
    cwd: folder,
    stdio: "inherit",
  });
  let failed = 0;
  for (const [i, runtime] of CHOSEN.entries()) {
    const own = join(folder, `runtime-${i}`);
    execFileSync(
      "npm",
      ["install", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix", own, runtime.package],
      { stdio: "ignore" },
    );
    const program = join(own, "node_modules", runtime.package.replace(/(?<!^)@.*$/, ""), runtime.program);
    chmodSync(program, 0o755);
    const version = spawnSync(program, ["--version"], { encoding: "utf8" }).stdout?.trim();
    const run = (...args) =>
      spawnSync(program, [...(runtime.args ?? []), "program.mjs", ...args], {
        cwd: folder,
        encoding: "utf8",
        timeout: 120_000,
      });
    const inFile = run(join(folder, `store-${i}`));
    const isRefused = runtime.refusesFiles !== undefined && inFile.stderr.includes(runtime.refusesFiles);
    const { status, stdout, stderr } = isRefused ? run() : inFile;
    const isOk = status === 0 && stdout.includes("ok");
    if (!isOk) failed++;
    console.log(
      `${isOk ? "ok    " : "FAILED"} ${runtime.name} (${version})${isOk ? "" : `\n${stdout}${stderr}`}`,
    );
  }
  if (process.argv.length < 3 || process.argv.includes("esbuild")) failed += bundle(folder);
  process.exitCode = failed;
} finally {
  rmSync(folder, { recursive: true, force: true });
}
