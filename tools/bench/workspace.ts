/** The directory for stores, on a disk: a file system in memory would make every sync free. */
import { mkdirSync, mkdtempSync, rmSync, statfsSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";

const FILE_SYSTEMS: Readonly<Record<number, string>> = {
  0xef53: "ext4",
  0x58465342: "xfs",
  0x9123683e: "btrfs",
  0x2fc12fc1: "zfs",
  0x794c7630: "overlay",
  0x6969: "nfs",
  0x1a: "apfs",
  0x01021994: "tmpfs",
  0x858458f6: "ramfs",
};

export class Workspace {
  readonly directory: string;
  readonly fileSystem: string;
  readonly #keep: boolean;

  private constructor(directory: string, keep: boolean) {
    this.directory = directory;
    this.fileSystem = fileSystemOf(directory);
    this.#keep = keep;
  }

  /** Makes a new directory in the given one, or in the first usual place on a disk. */
  static make(parent: string | null, keep: boolean): Workspace {
    const place = parent === null ? usualPlace() : resolve(parent);
    mkdirSync(place, { recursive: true });
    return new Workspace(mkdtempSync(join(place, "rondo-bench-")), keep);
  }

  /** Whether the directory is in memory, so that figures mean little. */
  get isInMemory(): boolean {
    return isInMemory(this.directory);
  }

  /** Makes an empty directory for one scenario. */
  directoryFor(scenario: string): string {
    const directory = join(this.directory, scenario);
    mkdirSync(directory);
    return directory;
  }

  /** Removes a scenario's directory, to free the space before the next one. */
  release(directory: string): void {
    if (!this.#keep) rmSync(directory, { recursive: true, force: true });
  }

  remove(): void {
    this.release(this.directory);
  }
}

function usualPlace(): string {
  return isInMemory(tmpdir()) ? process.cwd() : tmpdir();
}

function fileSystemOf(directory: string): string {
  const { type } = statfsSync(directory);
  return FILE_SYSTEMS[type] ?? `0x${type.toString(16)}`;
}

function isInMemory(directory: string): boolean {
  return ["tmpfs", "ramfs"].includes(fileSystemOf(directory));
}
