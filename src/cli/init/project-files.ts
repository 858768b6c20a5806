/** The files of a new project: one workflow, its tests, and the scripts that run them. */

/** The contents of the files, by path in the project. */
export type ProjectFiles = Readonly<Record<string, string>>;

/** Makes the files of a project with this name; `dependency` is the version of `rondo` that it depends on. */
export function projectFiles(name: string, dependency: string): ProjectFiles {
  return {
    "package.json": `${JSON.stringify(manifest(name, dependency), null, 2)}\n`,
    "tsconfig.json": `${JSON.stringify(TSCONFIG, null, 2)}\n`,
    ".gitignore": "node_modules\n.rondo\n",
    "src/greetings.ts": WORKFLOW,
    "test/greetings.test.ts": TEST,
    "README.md": readme(name),
  };
}

function manifest(name: string, dependency: string): Readonly<Record<string, unknown>> {
  return {
    name,
    version: "0.1.0",
    private: true,
    type: "module",
    scripts: {
      once: `rondo run src/greetings.ts -i '{"names":["Ada","Grace","Edsger"]}'`,
      dev: "rondo dev src/greetings.ts",
      start: "rondo start",
      worker: "rondo worker src/greetings.ts",
      test: "node --import rondo/register --test test/greetings.test.ts",
      typecheck: "tsc",
    },
    dependencies: { rondo: dependency },
    devDependencies: { "@types/node": "^22", typescript: ">=5.9" },
  };
}

const TSCONFIG = {
  compilerOptions: {
    target: "es2023",
    module: "nodenext",
    strict: true,
    noEmit: true,
    skipLibCheck: true,
    types: ["node"],
    allowImportingTsExtensions: true,
  },
  include: ["src", "test"],
};

const WORKFLOW = `import { workflow } from "rondo";

/** Greets everybody on the list, waits a moment, and says how many were greeted. */
export const greetings = workflow<{ names: string[] }>({ name: "greetings" })
  .phase("greet", {
    // One task for each name. They are stored before any of them is done.
    enumerate: ({ input }) => input.names,
    // A task runs at least once and is counted exactly once. A failed attempt is retried.
    process: async ({ task: name, log }) => {
      log.info(\`greeting \${name}\`);
      return \`Hello, \${name}!\`;
    },
    retry: { attempts: 5 },
    concurrency: 10,
  })
  .sleep("breathe", "2s")
  .returns(({ phases }) => ({ greeted: phases.greet.count }));
`;

const TEST = `import assert from "node:assert/strict";
import { test } from "node:test";
import { simulate, testRondo } from "rondo/testing";
import { greetings } from "../src/greetings.ts";

test("everybody is greeted; time is virtual", async () => {
  const t = await testRondo({ workflows: [greetings] });
  const execution = await t.start(greetings, { names: ["Ada", "Grace"] });
  await t.clock.advance("1m");
  assert.deepEqual(await execution.result(), { greeted: 2 });
});

test("every guest is counted exactly once, also after crashes", async () => {
  const names = Array.from({ length: 20 }, (_, i) => \`guest \${i}\`);
  const { runs } = await simulate(greetings, { seeds: 50, input: { names } });
  assert.equal(runs, 50);
});
`;

function readme(name: string): string {
  return `# ${name}

A workflow on Rondo, in \`src/greetings.ts\`.

\`\`\`sh
npm install
npm run once    # runs it once, in this process; the state is in .rondo
npm test        # its tests: virtual time, and fifty seeds of crashes in the simulator
npm run dev     # a server with its dashboard, and a worker that follows your changes
\`\`\`

While \`npm run dev\` runs, start one from another terminal and look at it:

\`\`\`sh
npx rondo run greetings -i '{"names":["Ada"]}' --wait
npx rondo ps
\`\`\`
`;
}
