/**
 * A record outside of the engine. Every worker appends four bytes to a file when a task is delivered to its handler, before the
 * handler does anything: the numbers of the task and the attempt. It needs no fsync, because it must survive killed processes,
 * not a power failure. Together with the journal it shows which tasks were in flight: delivered, but not counted.
 */
import { closeSync, existsSync, openSync, readFileSync, truncateSync, writeSync } from "node:fs";

const BYTES = 4;
const NUMBER_BITS = 24;
const NUMBER_MASK = (1 << NUMBER_BITS) - 1;
const ATTEMPT_MAX = 255;

/** A worker's writer to the file; without a file nothing is recorded. */
export class DeliveryLog {
  readonly #fd: number | null;
  readonly #entry = Buffer.alloc(BYTES);

  constructor(file: string | null) {
    // Opened for appending, because many processes write to it.
    this.#fd = file === null ? null : openSync(file, "a", 0o600);
  }

  /** Records that a task was delivered. */
  note(task: number, attempt: number): void {
    if (this.#fd === null) return;
    this.#entry.writeUInt32LE((Math.min(ATTEMPT_MAX, attempt) * 2 ** NUMBER_BITS + task) >>> 0);
    writeSync(this.#fd, this.#entry);
  }

  close(): void {
    if (this.#fd !== null) closeSync(this.#fd);
  }
}

/** Compares the noted deliveries with the journal. */
export class Deliveries {
  /** The file; null if the store is not a directory: then nothing survives a kill. */
  readonly file: string | null;
  /** The number of entries of earlier processes. */
  #before = 0;
  readonly #inFlight = new Set<number>();
  #isSettled: (task: number) => boolean = () => false;

  constructor(file: string | null) {
    this.file = file;
  }

  /** Compares the file with the journal as it was found. Returns the number of tasks in flight. */
  compare(found: { isSettled(task: number): boolean; endedAttempts(task: number): number }): number {
    this.#isSettled = (task) => found.isSettled(task);
    const all = this.#read();
    this.#before = all.length;
    // A half-written entry of a killed process is removed, or all later entries would be shifted.
    if (this.file !== null && existsSync(this.file)) truncateSync(this.file, all.length * BYTES);
    for (const { task, attempt } of all)
      if (!found.isSettled(task) && attempt > found.endedAttempts(task)) this.#inFlight.add(task);
    return this.#inFlight.size;
  }

  /** Deliveries since then: of tasks that were in flight, and needless ones of tasks that were settled. */
  since(): { readonly again: number; readonly needless: number } {
    const again = new Set<number>();
    let needless = 0;
    for (const { task } of this.#read().slice(this.#before)) {
      if (this.#inFlight.has(task)) again.add(task);
      else if (this.#isSettled(task)) needless++;
    }
    return { again: again.size, needless };
  }

  /** Clears the file for the next execution. */
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
