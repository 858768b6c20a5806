import { fileURLToPath } from "node:url";
import { defineConfig } from "vitest/config";

const source = (file: string): string => fileURLToPath(new URL(`src/${file}`, import.meta.url));

export default defineConfig({
  resolve: {
    alias: [
      { find: /^rondo$/, replacement: source("index.ts") },
      { find: /^rondo\/client$/, replacement: source("client.ts") },
      { find: /^rondo\/testing$/, replacement: source("testing.ts") },
    ],
  },
  test: {
    include: ["src/**/*.test.ts", "test/**/*.test.ts"],
    globalSetup: "test/broker/global-setup.ts",
    pool: "forks",
    maxWorkers: 2,
    testTimeout: 30_000,
    hookTimeout: 30_000,
  },
});
