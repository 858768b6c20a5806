// A fan-out over files: each is read by a task, and what was found is added up. Tasks that fail are tried again.
import { createHash } from "node:crypto";
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { workflow } from "rondo";

export const checksums = workflow<{ folder: string }>({ name: "checksums" })
  .phase("read", {
    async *enumerate({ input }) {
      for (const entry of await readdir(input.folder, { recursive: true, withFileTypes: true }))
        if (entry.isFile()) yield { path: join(entry.parentPath, entry.name) };
    },
    async process({ task }) {
      const bytes = await readFile(task.path);
      return { bytes: bytes.length, sum: createHash("sha256").update(bytes).digest("hex") };
    },
    concurrency: 20,
    retry: { attempts: 5 },
  })
  .returns(async ({ phases }) => {
    const sums = new Set<string>();
    for await (const { sum } of phases.read.results()) sums.add(sum);
    return { files: phases.read.count, different: sums.size };
  });
