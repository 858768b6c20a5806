import { expect, test } from "vitest";
import { compiledFile } from "./compiled-file.ts";

test("compiled code finds the file beside itself", () => {
  const from = "file:///app/node_modules/rondo/dist/src/store/sqlite/store-thread.js";
  expect(compiledFile("./thread.js", from).pathname).toBe(
    "/app/node_modules/rondo/dist/src/store/sqlite/thread.js",
  );
});

test("source code finds the file of the last build", () => {
  expect(compiledFile("./thread.js", "file:///src/rondo/src/store/sqlite/a.ts").pathname).toBe(
    "/src/rondo/dist/src/store/sqlite/thread.js",
  );
  expect(compiledFile("./seed-thread.js", "file:///a/tools/sim/b.ts").pathname).toBe(
    "/a/dist/tools/sim/seed-thread.js",
  );
});
