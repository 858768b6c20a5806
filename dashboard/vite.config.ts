import { defineConfig } from "vite";

// The built files are served by the node itself (src/server/http/page-files.ts); `vite dashboard` serves them with a node's API behind.
export default defineConfig({
  oxc: { jsx: { runtime: "automatic", importSource: "preact" } },
  build: {
    outDir: "../dist/dashboard",
    emptyOutDir: true,
    target: "es2022",
    modulePreload: { polyfill: false },
    assetsInlineLimit: 0,
    reportCompressedSize: false,
    // What most pages need is one file: many small ones are many requests one after the other.
    rolldownOptions: {
      output: {
        codeSplitting: {
          groups: [{ name: "parts", test: /\/src\/(?:ui|core|api)\/(?!chart)|node_modules\/preact/ }],
        },
      },
    },
  },
  server: { proxy: { "/v1": "http://127.0.0.1:7777" } },
});
