// What the README says about testing, run as it stands there.
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test, vi } from "vitest";

test("the README's simulation of its own example holds, in clusters too", { timeout: 300_000 }, async () => {
  const readme = await readFile(join(import.meta.dirname, "..", "..", "README.md"), "utf8");
  const snippets = [...readme.matchAll(/```ts\n([\s\S]*?)```/g)].map(([, code]) => code ?? "");
  const find = (text: string) => {
    const found = snippets.filter((code) => code.includes(text));
    expect(found, text).toHaveLength(1);
    return found[0] ?? "";
  };
  // Beside this file, so that its imports resolve as they do here.
  const folder = await mkdtemp(join(import.meta.dirname, ".readme-"));
  const log = vi.spyOn(console, "log").mockImplementation(() => {});
  try {
    await writeFile(join(folder, "thumbnails.ts"), find("export const thumbnails ="));
    await writeFile(join(folder, "simulation.ts"), find("await simulate("));
    await import(join(folder, "simulation.ts"));
    expect(log.mock.calls).toEqual([
      [expect.stringMatching(/^100 runs held, 50 of them in clusters, through [1-9]\d* crashes$/)],
    ]);
  } finally {
    log.mockRestore();
    await rm(folder, { recursive: true, force: true });
  }
});
