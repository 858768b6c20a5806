import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { openRondo, workflow } from "../../../src/index.ts";

test("a graceful close hands back what runs too long, and burns nothing", async () => {
  const directory = mkdtempSync(join(tmpdir(), "rondo-close-"));
  let begun: () => void = () => {};
  const lives = 6;
  const slow = workflow({ name: "slow" }).phase("work", {
    process: ({ attempt, signal }) =>
      attempt > lives
        ? "done"
        : new Promise<never>((_, fail) => {
            signal.addEventListener("abort", () => fail(new Error("stopped")));
            begun();
          }),
    retry: { attempts: 1, crashes: 1 },
  });
  for (let life = 0; life <= lives; life++) {
    const rondo = await openRondo({ store: `file:${directory}` });
    const isRunning = new Promise<void>((resolve) => {
      begun = resolve;
    });
    rondo.serve(slow);
    const execution = await rondo.start(slow, null, { id: "e" });
    if (life === lives) await execution.result();
    else await isRunning;
    await rondo.close({ graceMs: 0 });
  }
  const rondo = await openRondo({ store: `file:${directory}` });
  expect(await rondo.execution("e").describe()).toMatchObject({ status: "done" });
  await rondo.close();
  rmSync(directory, { recursive: true });
});
