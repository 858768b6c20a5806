import { fileURLToPath } from "node:url";
import { defineConfig, type TestProjectInlineConfiguration } from "vitest/config";

const source = (file: string): string => fileURLToPath(new URL(`src/${file}`, import.meta.url));

const alias = [
  { find: /^rondo$/, replacement: source("index.ts") },
  { find: /^rondo\/client$/, replacement: source("client.ts") },
  { find: /^rondo\/testing$/, replacement: source("testing.ts") },
];

/**
 * Tests that leave nothing behind in their process: many files run in one, which spares them the start of a process and
 * the loading of the same modules. Helpers that register hooks when they are imported need a process for each file.
 */
const TOGETHER = [
  "src/**/*.test.ts",
  "test/tidy.test.ts",
  "test/{audit,cli,client,cluster,config,conformance,deploy,peer,scenarios,sdk,store,transfer}/**/*.test.ts",
];
/** What takes long: processes that are killed again and again, and the demo with its rounds. */
const LONG = ["test/{faults,demo}/**/*.test.ts"];
/** Clusters of processes with short leases: one at a time, when nothing else runs. */
const CLUSTERS = ["test/cluster-e2e/**/*.test.ts"];

function project(name: string, test: TestProjectInlineConfiguration["test"]): TestProjectInlineConfiguration {
  return {
    resolve: { alias },
    test: {
      name,
      pool: "forks",
      testTimeout: 120_000,
      hookTimeout: 120_000,
      unstubEnvs: true,
      // Where others share the machine, processes and servers are sometimes late: what fails, fails twice.
      retry: process.env["CI"] === "true" ? 1 : 0,
      ...test,
    },
  };
}

// More workers than there are cores: many tests wait, for a lease or for another process.
const maxWorkers = 3;

export default defineConfig({
  test: {
    globalSetup: "test/tools/global-setup.ts",
    projects: [
      project("together", { include: TOGETHER, isolate: false, maxWorkers }),
      project("isolated", {
        include: ["test/**/*.test.ts"],
        exclude: [...TOGETHER, ...CLUSTERS, ...LONG],
        maxWorkers,
      }),
      project("long", { include: LONG, maxWorkers }),
      project("clusters", { include: CLUSTERS, maxWorkers: 1, sequence: { groupOrder: 1 } }),
    ],
  },
});
