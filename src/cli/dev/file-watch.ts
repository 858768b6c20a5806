/**
 * Tells when files have other content than before. Watches their folders, since editors replace files rather than write
 * to them; compares contents, since folders tell of much that changes nothing; and waits for a burst to be over.
 */
import { createHash } from "node:crypto";
import { existsSync, type FSWatcher, readFileSync, watch } from "node:fs";
import { dirname } from "node:path";

/** How long nothing must happen before it is looked what has changed. */
const QUIET_MS = 100;

export class FileWatch {
  readonly #onChange: (changed: readonly string[]) => void;
  readonly #contents = new Map<string, string>();
  readonly #folders = new Map<string, FSWatcher>();
  #timer: NodeJS.Timeout | null = null;

  constructor(onChange: (changed: readonly string[]) => void) {
    this.#onChange = onChange;
  }

  /** Watches these files, and no others, from now on; what is not there may come. */
  follow(files: readonly string[]): void {
    const wanted = new Set(files);
    for (const file of this.#contents.keys()) if (!wanted.has(file)) this.#contents.delete(file);
    // What is known keeps its content: a change that came meanwhile is still to be told.
    for (const file of files) if (!this.#contents.has(file)) this.#contents.set(file, contentOf(file));
    const folders = new Set(files.map((file) => dirname(file)).filter((folder) => existsSync(folder)));
    for (const [folder, watcher] of this.#folders) {
      if (folders.has(folder)) continue;
      watcher.close();
      this.#folders.delete(folder);
    }
    for (const folder of folders) if (!this.#folders.has(folder)) this.#watch(folder);
  }

  close(): void {
    for (const watcher of this.#folders.values()) watcher.close();
    this.#folders.clear();
    if (this.#timer !== null) clearTimeout(this.#timer);
  }

  #watch(folder: string): void {
    const watcher = watch(folder, () => this.#news());
    // A folder that is gone has no news; what needs it will say so when it is loaded.
    watcher.on("error", () => {
      watcher.close();
      this.#folders.delete(folder);
    });
    this.#folders.set(folder, watcher);
  }

  #news(): void {
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#timer = setTimeout(() => {
      this.#timer = null;
      const changed: string[] = [];
      for (const [file, before] of this.#contents) {
        const now = contentOf(file);
        if (now === before) continue;
        this.#contents.set(file, now);
        changed.push(file);
      }
      if (changed.length > 0) this.#onChange(changed);
    }, QUIET_MS);
  }
}

/** A name for what a file contains; the empty text if it is not there. */
function contentOf(file: string): string {
  try {
    return createHash("sha256").update(readFileSync(file)).digest("base64");
  } catch {
    // Gone, or not readable: that is a content of its own.
    return "";
  }
}
