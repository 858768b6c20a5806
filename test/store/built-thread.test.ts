import { readdirSync, statSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { StoreThread } from "../../src/store/sqlite/store-thread.ts";
import { temporaryDirectory } from "../fixtures/temporary-directory-fixture.ts";

// On Node 20 the store's thread runs from dist/ also in tests, so an old build would test old code.
test.each(["dist/rondo/main.js", "dist/src/store/sqlite/thread.js"])(
  "the bundle %s is as new as its sources (else: npm run build)",
  (bundle) => {
    const builtAt = statSync(bundle, { throwIfNoEntry: false })?.mtimeMs ?? 0;
    const files = readdirSync("src", { recursive: true, encoding: "utf8" });
    const sources = files.filter((file) => file.endsWith(".ts") && !/\.test(-d)?\.ts$/.test(file));
    expect(sources.length).toBeGreaterThan(0);
    expect(sources.filter((file) => statSync(join("src", file)).mtimeMs > builtAt)).toEqual([]);
  },
);

test("a call that the thread does not know is an error that names it, and the next call is answered", async () => {
  const fatal: Error[] = [];
  const thread = new StoreThread(temporaryDirectory(), {
    onFatal: (error) => fatal.push(error),
    onFiles: () => undefined,
  });
  await thread.call("open", { pid: 1, startedAt: 1 });
  await expect(thread.call("foretell" as "sweep")).rejects.toThrow(
    "the store's thread does not know the call foretell",
  );
  expect(await thread.call("countHeads", {})).toEqual({});
  await thread.call("close", { clean: true });
  await thread.end();
  expect(fatal).toEqual([]);
});
