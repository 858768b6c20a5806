import { basename, dirname, relative } from "node:path";
import { defineConfig, type UserConfig } from "vite";

const OUT = "dist/rondo";

/** Packages that are not bundled: native code, WebAssembly, an optional peer, and those that few processes load. */
const EXTERNAL = [
  "@jitl/quickjs-ng-wasmfile-release-sync",
  "amqplib",
  "jiti",
  "libsql",
  "pg",
  "quickjs-emscripten-core",
  "redis",
  "yaml",
];

/** Where the thread of the embedded store is, in `src/` and in `dist/`. */
const THREAD = "src/store/sqlite/thread";

const COMMON = { ssr: true, target: "node20", minify: false, sourcemap: true } as const;

/**
 * The thread of the embedded store, as one file in the place of the one that `tsc` writes. It has 70 modules, and every process with an
 * embedded store loads them once more for its thread.
 */
const thread: UserConfig = {
  build: {
    ...COMMON,
    outDir: `dist/${dirname(THREAD)}`,
    emptyOutDir: false,
    rolldownOptions: {
      input: `${THREAD}.ts`,
      output: { entryFileNames: `${basename(THREAD)}.js`, codeSplitting: false },
    },
  },
  ssr: { noExternal: true, external: EXTERNAL },
};

/**
 * The command line and the package's exports, as a few files. Node takes about a millisecond to load a file, and a server has 700
 * of them. Sandboxes, other threads and `tools/` run from the files that `tsc` writes.
 */
const programs: UserConfig = {
  build: {
    ...COMMON,
    outDir: OUT,
    emptyOutDir: true,
    rolldownOptions: {
      input: {
        main: "src/cli/main.ts",
        index: "src/index.ts",
        client: "src/client-node.ts",
        testing: "src/testing.ts",
      },
      external: /\/tools\//,
      // Some modules are loaded lazily by one verb and at once by another.
      checks: { ineffectiveDynamicImport: false },
      output: {
        paths: (id) => id.replace(/^.*\/tools\/(.*)\.ts$/, "../tools/$1.js"),
        entryFileNames: "[name].js",
        chunkFileNames: "[name]-[hash].js",
        codeSplitting: {
          // A module is in the first group that matches, and so are the modules that it imports. The rest is split as its importers need it.
          groups: [
            {
              name: "base",
              test: /\/src\/(std|kernel|protocol|sdk|client|config|net\/http|package-root|store\/store\.ts)/,
            },
            {
              name: "engine",
              test: /\/src\/(engine|rondo|commands\/post-ops\/broadcast|store\/(?!postgres)|compose\/compose\.ts|net\/hosts|server\/(http\/listen|remote-mark|services\/version-log))/,
            },
            { name: "zod", test: /\/node_modules\/zod\// },
            { name: "server", test: /\/src\/server\/(serve|metrics)\.ts/ },
          ].map((group, i, all) => ({ ...group, priority: all.length - i })),
        },
      },
    },
  },
  ssr: { noExternal: true, external: EXTERNAL },
  plugins: [
    {
      // A module that looks for a file beside itself finds it beside the file that `tsc` wrote.
      name: "compiled-place",
      transform(code, id) {
        if (!id.includes("/src/") || !code.includes("import.meta.url")) return null;
        const compiled = relative(OUT, `dist/${relative(".", id)}`).replace(/\.ts$/, ".js");
        // A bundler of a program that makes CommonJS leaves no `import.meta.url`; then the path inside of the package is enough.
        const path = JSON.stringify(compiled);
        const place = `(import.meta.url === undefined ? ${path} : new URL(${path}, import.meta.url).href)`;
        return { code: code.replaceAll("import.meta.url", place), map: null };
      },
    },
  ],
};

export default defineConfig(({ mode }) => (mode === "thread" ? thread : programs));
