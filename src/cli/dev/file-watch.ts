/** Reports that the content of files has changed, once no file has changed for a moment. Watches the folders that contain the files. */
import { createHash } from "node:crypto";
import { existsSync, type FSWatcher, readFileSync, watch } from "node:fs";
import { dirname } from "node:path";

/** How long no file may have changed before the contents are compared. */
const QUIET_MS = 100;

export class FileWatch {
  readonly #onChange: (changed: readonly string[]) => void;
  readonly #contents = new Map<string, string>();
  readonly #folders = new Map<string, FSWatcher>();
  #timer: NodeJS.Timeout | null = null;

  constructor(onChange: (changed: readonly string[]) => void) {
    this.#onChange = onChange;
  }

  /** Watches these files and no others from now on. A file may not exist yet. */
  follow(files: readonly string[]): void {
    const wanted = new Set(files);
    for (const file of this.#contents.keys()) if (!wanted.has(file)) this.#contents.delete(file);
    // The recorded content of a file that was watched before is kept, so that a change since then is still reported.
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
    // A folder that was deleted cannot be watched. Loading its files will show the error.
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

/** A hash of a file's content; empty if the file is missing. */
function contentOf(file: string): string {
  try {
    return createHash("sha256").update(readFileSync(file)).digest("base64");
  } catch {
    // A missing or unreadable file counts as empty.
    return "";
  }
}
