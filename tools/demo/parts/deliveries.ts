/**
 * A witness outside of the engine: a file to which every worker appends four bytes whenever a task is delivered to the
 * handler, before that does anything: the task's number and the attempt's. It needs no fsync, since it has to survive
 * killed processes, not a power cut. With the journal it tells what was in flight: delivered, but not counted.
 */
import { closeSync, existsSync, openSync, readFileSync, truncateSync, writeSync } from "node:fs";

const BYTES = 4;
const NUMBER_BITS = 24;
const NUMBER_MASK = (1 << NUMBER_BITS) - 1;
const ATTEMPT_MAX = 255;

/** A worker's end of the file; without one nothing is noted. */
export class DeliveryLog {
  readonly #fd: number | null;
  readonly #entry = Buffer.alloc(BYTES);

  constructor(file: string | null) {
    // Appended: many processes write to it.
    this.#fd = file === null ? null : openSync(file, "a", 0o600);
  }

  /** A task was delivered. */
  note(task: number, attempt: number): void {
    if (this.#fd === null) return;
    this.#entry.writeUInt32LE((Math.min(ATTEMPT_MAX, attempt) * 2 ** NUMBER_BITS + task) >>> 0);
    writeSync(this.#fd, this.#entry);
  }

  close(): void {
    if (this.#fd !== null) closeSync(this.#fd);
  }
}

/** What was delivered, compared with the journal before and after. */
export class Deliveries {
  /** Null if the store is not a directory either: then nothing survives, and nothing must. */
  readonly file: string | null;
  /** Entries of those before us. */
  #before = 0;
  readonly #inFlight = new Set<number>();
  #isSettled: (task: number) => boolean = () => false;

  constructor(file: string | null) {
    this.file = file;
  }

  /** Compares with the journal as it was found; answers how many tasks were in flight. */
  compare(found: { isSettled(task: number): boolean; endedAttempts(task: number): number }): number {
    this.#isSettled = (task) => found.isSettled(task);
    const all = this.#read();
    this.#before = all.length;
    // One that was being written when its process died would put all others out of step.
    if (this.file !== null && existsSync(this.file)) truncateSync(this.file, all.length * BYTES);
    for (const { task, attempt } of all)
      if (!found.isSettled(task) && attempt > found.endedAttempts(task)) this.#inFlight.add(task);
    return this.#inFlight.size;
  }

  /** What came since: tasks in flight then that were delivered again, and deliveries of tasks that were settled then. */
  since(): { readonly again: number; readonly needless: number } {
    const again = new Set<number>();
    let needless = 0;
    for (const { task } of this.#read().slice(this.#before)) {
      if (this.#inFlight.has(task)) again.add(task);
      else if (this.#isSettled(task)) needless++;
    }
    return { again: again.size, needless };
  }

  /** What is in it has done its duty: from now on it is about the next execution. */
  clear(): void {
    this.#before = 0;
    this.#inFlight.clear();
    this.#isSettled = () => false;
    if (this.file !== null && existsSync(this.file)) truncateSync(this.file, 0);
  }

  #read(): { task: number; attempt: number }[] {
    if (this.file === null || !existsSync(this.file)) return [];
    const bytes = readFileSync(this.file);
    return Array.from({ length: Math.floor(bytes.length / BYTES) }, (_, i) => {
      const entry = bytes.readUInt32LE(i * BYTES);
      return { task: entry & NUMBER_MASK, attempt: entry >>> NUMBER_BITS };
    });
  }
}
