/** A set of identities, stored as 128-bit hashes (open addressing). It can also keep the number of the task with each identity. */
import { sha256Words } from "../../std/hash.ts";

export class IdentitySet {
  #slots = new Uint32Array(4 * 64);
  /** The number of the task for the identity in each slot; null if task numbers are not kept. */
  #tasks: Uint32Array | null;
  size = 0;

  constructor(keepsTasks = false) {
    this.#tasks = keepsTasks ? new Uint32Array(64) : null;
  }

  has(identity: string): boolean {
    return this.#find(sha256Words(identity)) < 0;
  }

  /** Returns the number of the task with this identity; -1 if there is none. */
  taskOf(identity: string): number {
    const slot = this.#find(sha256Words(identity));
    return slot < 0 ? (this.#tasks?.[(-1 - slot) / 4] ?? -1) : -1;
  }

  /** Adds the identity of a task. Returns false if the set has it already. */
  add(identity: string, task = 0): boolean {
    const words = sha256Words(identity);
    const slot = this.#find(words);
    if (slot < 0) return false;
    this.#put(slot, words, task);
    this.size++;
    if (this.size * 8 > this.#slots.length) this.#grow();
    return true;
  }

  toText(): string {
    const full = new Uint32Array(this.size * 4);
    let n = 0;
    for (let i = 0; i < this.#slots.length; i += 4) {
      if (this.#isFree(i)) continue;
      full.set(this.#slots.subarray(i, i + 4), n);
      n += 4;
    }
    return Buffer.from(full.buffer).toString("base64");
  }

  /** Returns the task numbers as text, in the order of `toText`; null if task numbers are not kept. */
  tasksToText(): string | null {
    const tasks = this.#tasks;
    if (tasks === null) return null;
    const full = new Uint32Array(this.size);
    let n = 0;
    for (let i = 0; i < tasks.length; i++) if (!this.#isFree(i * 4)) full[n++] = tasks[i] as number;
    return Buffer.from(full.buffer).toString("base64");
  }

  static fromText(text: string, tasks: string | null = null): IdentitySet {
    const set = new IdentitySet(tasks !== null);
    const numbers = tasks === null ? null : Buffer.from(tasks, "base64");
    const bytes = Buffer.from(text, "base64");
    for (let i = 0; i + 16 <= bytes.length; i += 16) {
      const words = [0, 4, 8, 12].map((at) => bytes.readUInt32LE(i + at)) as [number, number, number, number];
      const slot = set.#find(words);
      if (slot < 0) continue;
      set.#put(slot, words, numbers?.readUInt32LE(i / 4) ?? 0);
      set.size++;
      if (set.size * 8 > set.#slots.length) set.#grow();
    }
    return set;
  }

  /** Returns the index of the free slot for this hash. If the set already has the hash in slot `i`, returns `-1 - i`. */
  #find(words: readonly [number, number, number, number]): number {
    const mask = this.#slots.length / 4 - 1;
    for (let at = words[0] & mask; ; at = (at + 1) & mask) {
      const i = at * 4;
      if (this.#isFree(i)) return i;
      if (
        this.#slots[i] === words[0] &&
        this.#slots[i + 1] === words[1] &&
        this.#slots[i + 2] === words[2] &&
        this.#slots[i + 3] === words[3]
      )
        return -1 - i;
    }
  }

  #isFree(i: number): boolean {
    return this.#slots[i + 3] === 0;
  }

  #put(slot: number, words: readonly [number, number, number, number], task: number): void {
    this.#slots.set(words, slot);
    if (this.#tasks !== null) this.#tasks[slot / 4] = task;
  }

  #grow(): void {
    const before = this.#slots;
    const tasks = this.#tasks;
    this.#slots = new Uint32Array(before.length * 2);
    if (tasks !== null) this.#tasks = new Uint32Array(tasks.length * 2);
    for (let i = 0; i < before.length; i += 4) {
      if (before[i + 3] === 0) continue;
      const words = [before[i], before[i + 1], before[i + 2], before[i + 3]] as [
        number,
        number,
        number,
        number,
      ];
      this.#put(this.#find(words), words, tasks?.[i / 4] ?? 0);
    }
  }
}
