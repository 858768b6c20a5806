import { fileURLToPath } from "node:url";
import { defineConfig, type TestProjectInlineConfiguration } from "vitest/config";
import { BaseSequencer, type TestSpecification } from "vitest/node";

const source = (file: string): string => fileURLToPath(new URL(`src/${file}`, import.meta.url));

const alias = [
  { find: /^rondo$/, replacement: source("index.ts") },
  { find: /^rondo\/client$/, replacement: source("client-node.ts") },
  { find: /^rondo\/react$/, replacement: source("react.ts") },
  { find: /^rondo\/testing$/, replacement: source("testing.ts") },
];

/**
 * Test files that need a process of their own: their helpers register hooks when they are imported, or they measure the
 * process. All other files share processes, which saves the start of a process and the loading of the same modules.
 */
const ISOLATED = [
  "test/{dashboard,workers/sandbox}/**/*.test.ts",
  "test/sim/simulate.test.ts",
  "test/broker/rabbitmq-server.test.ts",
];
/**
 * What takes long: processes that are killed again and again, the demo with its rounds, and the simulator and the bench as
 * programs, which `npm test` runs with more seeds and `.ci/run` with budgets.
 */
const LONG = ["test/{faults,sim/demo}/**/*.test.ts", "test/sim/{sim,bench}.test.ts"];
/** Clusters of processes with short leases: one at a time. `npm test` runs all other files beside them at a lower priority. */
const CLUSTERS = ["test/cluster/processes/**/*.test.ts"];

/**
 * Small files that take long: they run the commands of guides, or a suite of another file. Without results of an earlier
 * run, vitest begins with the largest files, so these would come last.
 */
const SMALL_AND_LONG = /[/]test[/](docs[/]|store[/].*(conformance|differential))/;

/** Begins with what takes long, so that no process is alone with such a file at the end. */
class LongFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const sorted = await super.sort(files);
    const isLong = (file: TestSpecification): boolean =>
      file.project.name === "isolated" || SMALL_AND_LONG.test(file.moduleId);
    return [...sorted.filter(isLong), ...sorted.filter((file) => !isLong(file))];
  }
}

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
const maxWorkers = 4;

export default defineConfig({
  test: {
    globalSetup: "test/tools/global-setup.ts",
    sequence: { sequencer: LongFirst },
    projects: [
      project("together", {
        include: ["src/**/*.test.ts", "tools/**/*.test.ts", "test/**/*.test.ts"],
        exclude: [...ISOLATED, ...CLUSTERS, ...LONG],
        isolate: false,
        maxWorkers,
      }),
      project("isolated", { include: ISOLATED, maxWorkers }),
      project("long", { include: LONG, maxWorkers }),
      project("clusters", { include: CLUSTERS, maxWorkers: 1, sequence: { groupOrder: 1 } }),
    ],
  },
});
