/** A small file system of its own that can be filled and emptied, where the machine lets us make one. */
import { spawnSync } from "node:child_process";
import { closeSync, mkdtempSync, openSync, rmSync, writeSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { onTestFinished } from "vitest";

export class SmallDisk {
  readonly directory: string;

  private constructor(directory: string) {
    this.directory = directory;
  }

  /** One of this size (`1m`), gone after the test; null: we may not mount one. */
  static make(size: string): SmallDisk | null {
    const disk = SmallDisk.#mount(size);
    if (disk !== null) onTestFinished(() => disk.remove());
    return disk;
  }

  /** Whether this machine gives the right to mount a file system, which not every one does. */
  static get isPossible(): boolean {
    const disk = SmallDisk.#mount("1m");
    disk?.remove();
    return disk !== null;
  }

  static #mount(size: string): SmallDisk | null {
    const directory = mkdtempSync(join(tmpdir(), "rondo-disk-"));
    if (run("mount", "-t", "tmpfs", "-o", `size=${size},mode=755`, "tmpfs", directory))
      return new SmallDisk(directory);
    rmSync(directory, { recursive: true });
    return null;
  }

  /** It has another size from now on. */
  resize(size: string): void {
    if (!run("mount", "-o", `remount,size=${size}`, this.directory))
      throw new Error("the disk cannot be resized");
  }

  /** Takes all the room that is left. */
  fill(): void {
    const file = openSync(this.#ballast, "a");
    try {
      for (const piece of [Buffer.alloc(65_536), Buffer.alloc(1)]) while (canWrite(file, piece));
    } finally {
      closeSync(file);
    }
  }

  /** Gives back what `fill` took. */
  empty(): void {
    rmSync(this.#ballast);
  }

  remove(): void {
    run("umount", "-l", this.directory);
    rmSync(this.directory, { recursive: true, force: true });
  }

  get #ballast(): string {
    return join(this.directory, "ballast");
  }
}

function canWrite(file: number, piece: Buffer): boolean {
  try {
    return writeSync(file, piece) > 0;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOSPC") return false;
    throw error;
  }
}

function run(command: string, ...args: string[]): boolean {
  return spawnSync(command, args).status === 0;
}
