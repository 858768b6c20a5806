/**
 * The audit log: every change through the API, with the caller. Entries that arrive during a write share a document. An entry
 * that no request waits for is gathered with others first: a write of its own for each start would double the store's writes.
 */
import type { Clock } from "../../std/clock.ts";
import { KEPT, listOf, number, object, optional, orNull, string } from "../../std/decode.ts";
import { type Random, systemRandom } from "../../std/random.ts";
import { jsonForm, listDocuments } from "../../store/document-form.ts";
import type { DocumentStore } from "../../store/store.ts";
import type { AuditEntry } from "../schemas/admin.ts";

/** A page of audit entries, newest first. */
export interface AuditPage {
  readonly data: readonly AuditEntry[];
  readonly next: string | null;
}

const KIND = "audit";
/** The form of the documents of the audit log. */
export const AUDIT_FORM = jsonForm<readonly AuditEntry[]>(
  KIND,
  listOf(
    object(
      {
        at: number,
        who: string,
        role: string,
        action: string,
        target: string,
        project: orNull(string),
        reason: optional(string),
      },
      KEPT,
    ),
  ),
);
const BATCH_MAX = 500;
/** The most entries that wait in memory while the store fails; the oldest are dropped beyond that. */
const WAITING_MAX = 10_000;
const RETRY_MS = 1_000;
/** How long entries that no request waits for are gathered. */
const GATHER_MS = 100;

interface AuditLogParts {
  readonly store: DocumentStore;
  readonly clock: Clock;
  readonly random?: Random;
  readonly onFault: (fault: Error) => void;
}

export class AuditLog {
  readonly #parts: AuditLogParts;
  #waiting: AuditEntry[] = [];
  #writing: Promise<void> | null = null;
  readonly #writer: string;
  #counter = 0;
  /** Cancels the next write, which waits for more entries or for the store. */
  #cancelNext: (() => void) | null = null;

  constructor(parts: AuditLogParts) {
    this.#parts = parts;
    this.#writer = (parts.random ?? systemRandom).u32().toString(16).padStart(8, "0");
  }

  /**
   * Adds an entry to the audit log. Resolves when the entry is stored, or when the first write has failed and will be repeated.
   */
  note(entry: Omit<AuditEntry, "at">): Promise<void> {
    this.#add(entry);
    return this.#writeNow();
  }

  /** Adds an entry that is stored a moment later, together with others. */
  noteLater(entry: Omit<AuditEntry, "at">): void {
    this.#add(entry);
    if (this.#waiting.length >= BATCH_MAX) void this.#writeNow();
    else if (this.#writing === null) this.#writeAfter(GATHER_MS);
  }

  /** Lists entries, also those that this node has not stored yet. */
  async list(options: { cursor: string | null; max: number; project: string | null }): Promise<AuditPage> {
    if (this.#waiting.length > 0) await this.#writeNow();
    const data: AuditEntry[] = [];
    let [before, skip] = readCursor(options.cursor);
    for (;;) {
      const page = await listDocuments(this.#parts.store, AUDIT_FORM, {
        descending: true,
        max: 100,
        ...(before === null ? {} : { before }),
      });
      for (const document of page) {
        const { id } = document;
        const entries = document.damage === undefined ? document.value.toReversed() : [];
        for (let i = skip; i < entries.length; i++) {
          const entry = entries[i] as AuditEntry;
          if (options.project !== null && entry.project !== options.project) continue;
          if (data.length === options.max) return { data, next: `${id}.${i}` };
          data.push(entry);
        }
        skip = 0;
        before = id;
      }
      if (page.length < 100) return { data, next: null };
    }
  }

  /** Stores the entries that still wait. */
  async close(): Promise<void> {
    await this.#writing;
    if (this.#waiting.length > 0) await this.#writeNow();
    this.#cancelNext?.();
  }

  #add(entry: Omit<AuditEntry, "at">): void {
    this.#waiting.push({ at: this.#parts.clock.now(), ...entry });
    if (this.#waiting.length > WAITING_MAX) this.#waiting.shift();
  }

  #writeNow(): Promise<void> {
    this.#cancelNext?.();
    this.#cancelNext = null;
    this.#writing ??= this.#write();
    return this.#writing;
  }

  #writeAfter(ms: number): void {
    this.#cancelNext ??= this.#parts.clock.after(ms, () => void this.#writeNow());
  }

  async #write(): Promise<void> {
    // Entries of one turn of the event loop are stored together.
    await new Promise<void>((resolve) => this.#parts.clock.soon(resolve));
    try {
      while (this.#waiting.length > 0) {
        const batch = this.#waiting.slice(0, BATCH_MAX);
        await this.#parts.store.putDocument(KIND, this.#newId(batch[0]?.at ?? 0), JSON.stringify(batch));
        this.#waiting = this.#waiting.slice(batch.length);
      }
    } catch (thrown) {
      this.#parts.onFault(new Error("the audit log could not be written", { cause: thrown }));
      this.#writeAfter(RETRY_MS);
    } finally {
      this.#writing = null;
    }
  }

  #newId(at: number): string {
    this.#counter = (this.#counter + 1) % 1_000_000;
    return `${String(at).padStart(15, "0")}-${String(this.#counter).padStart(6, "0")}-${this.#writer}`;
  }
}

/** Parses a cursor, which names a document and how many of its entries were shown. */
function readCursor(cursor: string | null): [before: string | null, skip: number] {
  if (cursor === null) return [null, 0];
  const [id = "", index = "0"] = cursor.split(".");
  // The document that the cursor names is read again, so the upper bound is an id that sorts directly after it.
  return [`${id}~`, Number(index)];
}
