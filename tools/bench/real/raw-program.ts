/**
 * What the tasks of a job cost without an engine: makes their texts, runs their code, makes the texts of its results and errors, and
 * makes all texts durable in batches. While one batch is written, the tasks of the next one run.
 */
import type { RawStore } from "./raw-store.ts";
import { failOnce, taskOf } from "./workflows.ts";

const BATCH = 1_000;

/** Returns the seconds for this many tasks, of which one in ten fails once. */
export async function rawRetriedSeconds(raw: RawStore, tasks: number): Promise<number> {
  const from = performance.now();
  let written: Promise<void> = Promise.resolve();
  const write = async (rows: readonly string[]): Promise<void> => {
    await written;
    written = raw.append(rows);
  };
  for (let n = 0; n < tasks; n += BATCH) {
    const texts = Array.from({ length: Math.min(BATCH, tasks - n) }, (_, i) => JSON.stringify(taskOf(n + i)));
    await write(texts);
    const failed: number[] = [];
    await write(await runAll(texts, 1, failed));
    if (failed.length === 0) continue;
    await write(
      await runAll(
        failed.map((i) => texts[i] as string),
        2,
        [],
      ),
    );
  }
  await written;
  return (performance.now() - from) / 1_000;
}

/** Runs a task for each text. Returns the texts of the results and errors; adds the indexes of the failed tasks to `failed`. */
async function runAll(texts: readonly string[], attempt: number, failed: number[]): Promise<string[]> {
  const rows: string[] = [];
  const running = texts.map((text, i) =>
    failOnce({ task: JSON.parse(text) as ReturnType<typeof taskOf>, attempt }).then(
      (result) => {
        rows.push(JSON.stringify({ task: i, attempt, result }));
      },
      ({ name, message, stack }: Error) => {
        failed.push(i);
        rows.push(JSON.stringify({ task: i, attempt, error: { name, message, stack } }));
      },
    ),
  );
  await Promise.all(running);
  return rows;
}
