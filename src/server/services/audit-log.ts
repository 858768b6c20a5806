/**
 * Who did what: every change that came through the API, with the caller's name and role. Entries that come while a
 * write is under way are stored together, as one document; the ids of documents are in the order of time, and end with
 * what tells this log from those of other nodes.
 */

import type { Clock } from "../../std/clock.ts";
import { KEPT, listOf, number, object, orNull, string } from "../../std/decode.ts";
import { type Random, systemRandom } from "../../std/random.ts";
import { jsonForm, listDocuments } from "../../store/document-form.ts";
import type { DocumentStore } from "../../store/store.ts";
import type { AuditEntry } from "../schemas/admin.ts";

/** A page of entries, newest first. */
export interface AuditPage {
  readonly data: readonly AuditEntry[];
  readonly next: string | null;
}

const KIND = "audit";
/** The form of the log's documents. */
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
      },
      KEPT,
    ),
  ),
);
const BATCH_MAX = 500;
/** Entries that wait while the store fails; beyond, the oldest are given up. */
const WAITING_MAX = 10_000;
const RETRY_MS = 1_000;

export class AuditLog {
  readonly #store: DocumentStore;
  readonly #clock: Clock;
  readonly #onFault: (fault: Error) => void;
  #waiting: AuditEntry[] = [];
  #writing: Promise<void> | null = null;
  readonly #writer: string;
  #counter = 0;
  #cancelRetry: (() => void) | null = null;

  constructor(parts: {
    store: DocumentStore;
    clock: Clock;
    random?: Random;
    onFault: (fault: Error) => void;
  }) {
    this.#writer = (parts.random ?? systemRandom).u32().toString(16).padStart(8, "0");
    this.#store = parts.store;
    this.#clock = parts.clock;
    this.#onFault = parts.onFault;
  }

  /** Notes an entry; resolved when it is stored, or when storing it has failed once and will be tried again. */
  note(entry: Omit<AuditEntry, "at">): Promise<void> {
    this.#waiting.push({ at: this.#clock.now(), ...entry });
    if (this.#waiting.length > WAITING_MAX) this.#waiting.shift();
    this.#writing ??= this.#write();
    return this.#writing;
  }

  /** Entries before a cursor, newest first. */
  async list(options: { cursor: string | null; max: number; project: string | null }): Promise<AuditPage> {
    const data: AuditEntry[] = [];
    let [before, skip] = readCursor(options.cursor);
    for (;;) {
      const page = await listDocuments(this.#store, AUDIT_FORM, {
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

  /** Stores what is left. */
  async close(): Promise<void> {
    this.#cancelRetry?.();
    await this.#writing;
    if (this.#waiting.length > 0) await this.#write();
  }

  async #write(): Promise<void> {
    // One turn of the loop: what is noted in it goes together.
    await new Promise<void>((resolve) => this.#clock.soon(resolve));
    try {
      while (this.#waiting.length > 0) {
        const batch = this.#waiting.slice(0, BATCH_MAX);
        await this.#store.putDocument(KIND, this.#newId(batch[0]?.at ?? 0), JSON.stringify(batch));
        this.#waiting = this.#waiting.slice(batch.length);
      }
    } catch (thrown) {
      this.#onFault(new Error("the audit log could not be written", { cause: thrown }));
      this.#cancelRetry = this.#clock.after(RETRY_MS, () => {
        this.#writing ??= this.#write();
      });
    } finally {
      this.#writing = null;
    }
  }

  #newId(at: number): string {
    this.#counter = (this.#counter + 1) % 1_000_000;
    return `${String(at).padStart(15, "0")}-${String(this.#counter).padStart(6, "0")}-${this.#writer}`;
  }
}

/** A cursor names the document and how many of its entries were shown; what comes next begins there. */
function readCursor(cursor: string | null): [before: string | null, skip: number] {
  if (cursor === null) return [null, 0];
  const [id = "", index = "0"] = cursor.split(".");
  // The document itself is wanted again: the smallest id after it is the bound.
  return [`${id}~`, Number(index)];
}
