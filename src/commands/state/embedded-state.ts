/** The state store inside Rondo's own store, for results of commands. Each key is one document, which is replaced by compare-and-set. */
import { KEPT, object, string } from "../../std/decode.ts";
import { sha256 } from "../../std/hash.ts";
import { type DocumentForm, jsonForm, parseDocument, readDocument } from "../../store/document-form.ts";
import { type DocumentStore, StoreFault } from "../../store/store.ts";
import {
  compareEntries,
  type NewEntry,
  type PutVerdict,
  parseVersion,
  type StateEntry,
  type StatePlace,
  type StateStore,
  versionText,
} from "./state-store.ts";

const KIND = "state";
/** How many times a write is tried if other writers change the value first. */
const TRIES = 20;
/** The longest document id, because databases limit its length. A longer id is cut and made unique by its hash. */
const ID_CHARS_MAX = 600;

export class EmbeddedState implements StateStore {
  readonly #store: DocumentStore;

  constructor(store: DocumentStore) {
    this.#store = store;
  }

  async put(place: StatePlace, entry: NewEntry): Promise<PutVerdict> {
    const id = documentId(place);
    for (let tries = 0; tries < TRIES; tries++) {
      const was = await this.#store.getDocument(KIND, id);
      const verdict = compareEntries(entry, was === null ? null : parseDocument(FORM, id, was));
      if (verdict !== "stored") return verdict;
      if (await this.#store.swapDocument(KIND, id, { was, body: encode(place, entry) })) return "stored";
    }
    throw new StoreFault(
      `the state "${place.key}" could not be written: too many writers change it at the same time`,
      {
        retryable: true,
        nothingWritten: true,
      },
    );
  }

  async get(place: StatePlace): Promise<StateEntry | null> {
    return readDocument(this.#store, FORM, documentId(place));
  }

  async close(): Promise<void> {
    // The engine owns the store and closes it, so there is nothing to close here.
  }
}

function documentId({ store, partition, key }: StatePlace): string {
  const id = JSON.stringify([store, partition ?? "", key]);
  return id.length <= ID_CHARS_MAX ? id : `${id.slice(0, ID_CHARS_MAX - 70).toWellFormed()}~${sha256(id)}`;
}

/** Encodes an entry: the place and version on the first line, then the value unchanged. */
function encode({ store, partition, key }: StatePlace, { version, project, value }: NewEntry): string {
  return `${JSON.stringify({ store, partition, key, version: versionText(version), project })}\n${value}`;
}

const HEAD = jsonForm<{ readonly version: string; readonly project: string }>(
  KIND,
  object({ version: string, project: string }, KEPT),
);

const FORM: DocumentForm<StateEntry> = {
  kind: KIND,
  parse: (body) => {
    const end = body.indexOf("\n");
    const { version, project } = HEAD.parse(body.slice(0, end));
    return { value: body.slice(end + 1), version: parseVersion(version), project };
  },
};
