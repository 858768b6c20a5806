/**
 * A witness outside of the engine: a file with one byte per task, the attempt that was last delivered to the handler.
 * It is written before the handler does anything and needs no fsync, since it has to survive a killed process, not a
 * power cut. With the journal it tells what was in flight: delivered, but not counted.
 */
import { closeSync, existsSync, openSync, readSync, rmSync, writeSync } from "node:fs";

export class Deliveries {
  readonly #file: string | null;
  readonly #fd: number | null;
  readonly #attempts: Uint8Array;
  readonly #byte = new Uint8Array(1);
  readonly #awaited = new Set<number>();
  #isSettled: (task: number) => boolean = () => false;
  /** Tasks in flight when the process before died, and delivered again. */
  again = 0;
  /** Tasks delivered although they were settled when this process began: must stay 0. */
  needless = 0;

  /** `file` is null if the store is not a directory either: then nothing survives, and nothing must. */
  constructor(file: string | null, tasks: number) {
    this.#file = file;
    this.#attempts = new Uint8Array(tasks);
    if (file === null) {
      this.#fd = null;
      return;
    }
    const isNew = !existsSync(file);
    this.#fd = openSync(file, isNew ? "w+" : "r+", 0o600);
    if (!isNew) readSync(this.#fd, this.#attempts, 0, tasks, 0);
  }

  /** Compares with the journal as it was found; answers how many tasks were in flight. */
  compare(found: { isSettled(task: number): boolean; endedAttempts(task: number): number }): number {
    this.#isSettled = (task) => found.isSettled(task);
    this.#attempts.forEach((attempt, task) => {
      if (!found.isSettled(task) && attempt > found.endedAttempts(task)) this.#awaited.add(task);
    });
    return this.#awaited.size;
  }

  /** A task was delivered. */
  note(task: number, attempt: number): void {
    if (this.#awaited.size > 0 && this.#awaited.delete(task)) this.again++;
    else if (this.#isSettled(task)) this.needless++;
    if (this.#attempts[task] === attempt) return;
    this.#attempts[task] = attempt;
    if (this.#fd === null) return;
    this.#byte[0] = attempt;
    writeSync(this.#fd, this.#byte, 0, 1, task);
  }

  /** `isOver`: the file has done its duty. */
  close(options: { isOver: boolean }): void {
    if (this.#fd !== null) closeSync(this.#fd);
    if (options.isOver && this.#file !== null) rmSync(this.#file, { force: true });
  }
}
