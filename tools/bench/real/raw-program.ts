/**
 * What the tasks of a job cost without an engine: makes their texts, runs their code, makes the texts of its results and errors, and
 * makes all texts durable. While texts are written, the next tasks run; the next write takes all texts that wait.
 */
import type { RawStore } from "./raw-store.ts";
import { failOnce, taskOf } from "./workflows.ts";

const BATCH = 1_000;
/** The texts that wait at most while others are written, as a row for each batch. */
const ROWS_AHEAD = 8;
/** An error is stored with its message and the first line of its stack, which is the one in the code of the task. */
const STACK_LINES = 2;

/** Returns the seconds for this many tasks, of which one in ten fails once. */
export async function rawRetriedSeconds(raw: RawStore, tasks: number): Promise<number> {
  const from = performance.now();
  const writer = new Writer(raw);
  for (let n = 0; n < tasks; n += BATCH) {
    const texts = Array.from({ length: Math.min(BATCH, tasks - n) }, (_, i) => JSON.stringify(taskOf(n + i)));
    await writer.add(texts.join("\n"));
    const failed: string[] = [];
    await writer.add(await runAll(texts, 1, failed));
    if (failed.length > 0) await writer.add(await runAll(failed, 2, []));
  }
  await writer.end();
  return (performance.now() - from) / 1_000;
}

/** Runs a task for each text. Returns the texts of the results and errors; adds the texts of the failed tasks to `failed`. */
async function runAll(texts: readonly string[], attempt: number, failed: string[]): Promise<string> {
  const ends: string[] = [];
  const running = texts.map((text) =>
    failOnce({ task: JSON.parse(text) as ReturnType<typeof taskOf>, attempt }).then(
      (result) => {
        ends.push(JSON.stringify(result));
      },
      ({ name, message, stack = "" }: Error) => {
        failed.push(text);
        const own = stack.split("\n", STACK_LINES).join("\n");
        ends.push(JSON.stringify({ name, message, stack: own }));
      },
    ),
  );
  await Promise.all(running);
  return ends.join("\n");
}

/** Makes rows durable in their order, with one write under way. */
class Writer {
  readonly #raw: RawStore;
  #rows: string[] = [];
  #writing: Promise<void> | null = null;

  constructor(raw: RawStore) {
    this.#raw = raw;
  }

  /** Adds a row. Waits while too many rows wait. */
  async add(row: string): Promise<void> {
    this.#rows.push(row);
    this.#writing ??= this.#write();
    if (this.#rows.length >= ROWS_AHEAD) await this.#writing;
  }

  async end(): Promise<void> {
    await this.#writing;
  }

  async #write(): Promise<void> {
    while (this.#rows.length > 0) await this.#raw.append(this.#rows.splice(0));
    this.#writing = null;
  }
}
