/**
 * Keeps events on disk until they are acknowledged, so that they survive the worker's process. Each process has its own file,
 * and takes over the files of processes that have ended. Acknowledged events are removed when the file is rewritten. A damaged
 * file is kept under another name, and its readable lines are sent.
 */
import { isUtf8 } from "node:buffer";
import fs from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { decodeAttempt } from "../../protocol/attempt-id.ts";
import { makeDirectory } from "../../std/make-directory.ts";

/** One event with everything needed to send it. */
export interface SpooledEvent {
  readonly attempt: string;
  readonly token: string;
  readonly n: number;
  readonly json: string;
  readonly isReceipt: boolean;
}

/** A damaged spool file: where it is kept, and how many of its lines are unreadable. */
export interface DamagedSpool {
  readonly path: string;
  readonly lines: number;
}

interface Waiting {
  readonly text: string;
  readonly synced: () => void;
  readonly failed: (error: unknown) => void;
}

const SUFFIX = ".spool";
const DAMAGED_SUFFIX = ".damaged";
const NEWLINE = 10;
/** When the file is larger than this, it is rewritten with only the unacknowledged events. */
const REWRITE_BYTES = 8 * 1_048_576;

const writeTo = promisify(fs.write);
const syncData = promisify(fs.fdatasync);

export class Spool {
  readonly #directory: string;
  readonly #path: string;
  #file: number;
  #bytes = 0;
  #waiting: Waiting[] = [];
  #isWriting = false;
  #isClosed = false;
  /** Whether the file has events that the next process has to send. */
  #isNeeded = true;
  /** The unacknowledged events that are on disk, not a copy of them. The outbox sets this; null until then. */
  unacknowledged: { readonly size: number; values(): Iterable<SpooledEvent> } | null = null;

  private constructor(directory: string, left: readonly SpooledEvent[]) {
    this.#directory = directory;
    this.#path = join(directory, newName());
    this.#file = this.#writeFile(left);
  }

  /** Opens this process's file. Returns the events that earlier processes left; this file contains them from now on. */
  static open(directory: string): {
    readonly spool: Spool;
    readonly left: readonly SpooledEvent[];
    readonly damaged: readonly DamagedSpool[];
  } {
    makeDirectory(directory, 0o700);
    const left: SpooledEvent[] = [];
    const damaged: DamagedSpool[] = [];
    const taken: { readonly path: string; readonly kept: string | null }[] = [];
    for (const name of fs.readdirSync(directory)) {
      if (!name.endsWith(SUFFIX) || isAlive(name.slice(0, -SUFFIX.length))) continue;
      const path = takeOver(directory, name);
      if (path === null) continue;
      const events = wholeLines(fs.readFileSync(path)).map(readLine);
      for (const event of events) if (event !== null) left.push(event);
      const lines = events.filter((event) => event === null).length;
      const kept = lines === 0 ? null : `${path}${DAMAGED_SUFFIX}`;
      if (kept !== null) damaged.push({ path: kept, lines });
      taken.push({ path, kept });
    }
    const spool = new Spool(directory, left);
    for (const { path, kept } of taken) {
      if (kept === null) fs.unlinkSync(path);
      else fs.renameSync(path, kept);
    }
    return { spool, left, damaged };
  }

  /** Writes events to disk, and then calls `synced`. */
  append(events: readonly SpooledEvent[], synced: () => void, failed: (error: unknown) => void): void {
    this.#waiting.push({ text: linesOf(events), synced, failed });
    if (!this.#isWriting) this.#write().catch(failed);
  }

  /** Called when events were acknowledged. The file may then be rewritten without them. */
  acknowledged(): void {
    if (!this.#isWriting && !this.#isClosed) this.#tidy();
  }

  /** Closes the file after the writes that are under way. The file is kept if it has events that are not acknowledged. */
  close(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#isNeeded = this.unacknowledged?.size !== 0 || this.#isWriting;
    if (!this.#isWriting) this.#closeFile();
  }

  #closeFile(): void {
    fs.closeSync(this.#file);
    if (!this.#isNeeded) fs.unlinkSync(this.#path);
  }

  async #write(): Promise<void> {
    this.#isWriting = true;
    while (this.#waiting.length > 0) {
      const batch = this.#waiting;
      this.#waiting = [];
      try {
        const data = Buffer.from(batch.map(({ text }) => text).join(""));
        for (let at = 0; at < data.length; ) at += (await writeTo(this.#file, data, at)).bytesWritten;
        await syncData(this.#file);
        this.#bytes += data.length;
        for (const { synced } of batch) synced();
        if (!this.#isClosed) this.#tidy();
      } catch (error) {
        for (const { failed } of batch) failed(error);
      }
    }
    this.#isWriting = false;
    if (this.#isClosed) this.#closeFile();
  }

  /** Rewrites the file with only the unacknowledged events. No other write is under way. */
  #tidy(): void {
    if (this.#bytes === 0 || this.unacknowledged === null) return;
    if (this.unacknowledged.size === 0) {
      fs.ftruncateSync(this.#file, 0);
      this.#bytes = 0;
    } else if (this.#bytes > REWRITE_BYTES) {
      fs.closeSync(this.#file);
      this.#file = this.#writeFile([...this.unacknowledged.values()]);
    }
  }

  #writeFile(events: readonly SpooledEvent[]): number {
    const path = `${this.#path}.new`;
    const text = linesOf(events);
    fs.writeFileSync(path, text, { mode: 0o600, flush: true });
    fs.renameSync(path, this.#path);
    const directory = fs.openSync(this.#directory, "r");
    fs.fsyncSync(directory);
    fs.closeSync(directory);
    this.#bytes = Buffer.byteLength(text);
    return fs.openSync(this.#path, "a");
  }
}

function linesOf(events: readonly SpooledEvent[]): string {
  return events
    .map(({ attempt, token, n, json, isReceipt }) => {
      const head = JSON.stringify({ attempt, token, n, isReceipt });
      return `${head.slice(0, -1)},"event":${json}}\n`;
    })
    .join("");
}

/**
 * Returns the lines of a spool file. A last line without a line end is left out: it was cut off when its process ended, before
 * the event counted as stored.
 */
function wholeLines(bytes: Buffer): Buffer[] {
  const lines: Buffer[] = [];
  for (let from = 0; ; ) {
    const end = bytes.indexOf(NEWLINE, from);
    if (end < 0) return lines;
    lines.push(bytes.subarray(from, end));
    from = end + 1;
  }
}

/** Reads an event from a line of a spool file; null if the line is damaged. */
function readLine(line: Buffer): SpooledEvent | null {
  if (!isUtf8(line)) return null;
  let value: unknown;
  try {
    value = JSON.parse(line.toString());
  } catch (error) {
    if (error instanceof SyntaxError) return null;
    throw error;
  }
  const { attempt, token, n, isReceipt, event } = (value ?? {}) as Partial<Record<string, unknown>>;
  if (typeof attempt !== "string" || decodeAttempt(attempt) === null) return null;
  if (typeof token !== "string" || !Number.isSafeInteger(n) || typeof isReceipt !== "boolean") return null;
  if (typeof event !== "object" || event === null) return null;
  return { attempt, token, n: n as number, isReceipt, json: JSON.stringify(event) };
}

/** Takes over the file of a process that has ended. If several processes try, the first one that renames the file gets it. */
function takeOver(directory: string, name: string): string | null {
  const path = join(directory, newName());
  try {
    fs.renameSync(join(directory, name), path);
    return path;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return null;
    throw error;
  }
}

let names = 0;

/**
 * Returns the name of a new spool file. It contains the process id. Process ids are reused, so it also contains the start time,
 * if the system provides it.
 */
function newName(): string {
  return `${process.pid}-${beginningOf(process.pid) ?? "0"}-${++names}${SUFFIX}`;
}

function isAlive(name: string): boolean {
  const [pid = "", beginning = "0"] = name.split("-");
  const now = beginningOf(Number(pid));
  if (beginning !== "0") return now === beginning;
  try {
    process.kill(Number(pid), 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "EPERM";
  }
}

/** Returns when a process started, in system ticks; null if there is no such process, or if the system does not provide it. */
function beginningOf(pid: number): string | null {
  try {
    const stat = fs.readFileSync(`/proc/${pid}/stat`, "utf8");
    // The second field is the program's name in brackets, which may contain any character.
    return stat.slice(stat.lastIndexOf(")") + 2).split(" ")[19] ?? null;
  } catch {
    // The system is not Linux, or there is no such process.
    return null;
  }
}
