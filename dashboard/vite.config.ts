import { defineConfig } from "vite";

// The node serves the built files (src/server/http/page-files.ts); `vite dashboard` serves them in development, with a node's
// API behind.
export default defineConfig({
  oxc: { jsx: { runtime: "automatic", importSource: "preact" } },
  build: {
    outDir: "../dist/dashboard",
    emptyOutDir: true,
    target: "es2022",
    modulePreload: { polyfill: false },
    assetsInlineLimit: 0,
    reportCompressedSize: false,
    // Code that most pages need goes into one file: many small files would cost many requests in sequence.
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
