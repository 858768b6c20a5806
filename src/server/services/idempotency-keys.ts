/**
 * Remembers the use of Idempotency-Keys: a key that comes again with another request is refused. Only a hash of the request is
 * kept, for a day, in memory and as a document (retention/expired-documents.ts deletes it). That a repeated request has no second
 * effect follows from the ids that routes derive from the key. In a cluster the document is written before the request is answered, so that every node knows it.
 */

import { contentHash } from "../../std/canonical-json.ts";
import type { Clock } from "../../std/clock.ts";
import { KEPT, number, object, string } from "../../std/decode.ts";
import { sha256 } from "../../std/hash.ts";
import type { Json } from "../../std/json.ts";
import { type Rejection, reject } from "../../std/rejection.ts";
import { toError } from "../../std/to-error.ts";
import { TransientMap } from "../../std/transient-map.ts";
import { jsonForm, readDocument } from "../../store/document-form.ts";
import type { Store } from "../../store/store.ts";
import type { Caller } from "../auth/caller.ts";

/** A request with an Idempotency-Key. */
export interface KeyedRequest {
  readonly caller: Caller;
  readonly key: string;
  /** The method, path and query of the request. */
  readonly target: string;
  readonly body: unknown;
}

/** One use of an Idempotency-Key. */
export interface KeyUse {
  readonly id: string;
  /** The hash of the request. */
  readonly hash: string;
  readonly target: string;
}

interface Kept {
  readonly hash: string;
  readonly target: string;
  readonly until: number;
}

const KIND = "idempotency-key";
/** The form of the documents of used keys. */
export const KEY_FORM = jsonForm<Kept>(KIND, object({ hash: string, target: string, until: number }, KEPT));
const KEPT_MS = 86_400_000;
/** The most uses of keys in memory; older ones are read from the store. */
const MEMORY_MAX = 10_000;
const TARGET_CHARS_MAX = 200;

export class IdempotencyKeys {
  readonly #store: Pick<Store, "getDocument" | "putDocument">;
  readonly #clock: Clock;
  readonly #onFault: (fault: Error) => void;
  readonly #isShared: boolean;
  readonly #known = new Map<string, Kept>();
  /** The number of open requests with each Idempotency-Key. */
  readonly #open = new TransientMap<string, { readonly use: KeyUse; count: number }>();
  readonly #writes = new Set<Promise<void>>();

  constructor(parts: {
    store: Pick<Store, "getDocument" | "putDocument">;
    clock: Clock;
    onFault: (fault: Error) => void;
    /** Whether other nodes use the same store. */
    isShared?: boolean;
  }) {
    this.#isShared = parts.isShared ?? false;
    this.#store = parts.store;
    this.#clock = parts.clock;
    this.#onFault = parts.onFault;
  }

  /** Begins a use of a key, or rejects a key that was used for another request. Every use must be ended with `end`. */
  async begin(request: KeyedRequest): Promise<KeyUse | Rejection> {
    const use = useOf(request);
    const beside = this.#open.get(use.id);
    if (beside !== undefined && beside.use.hash !== use.hash) return misused(request.key, beside.use.target);
    if (beside === undefined) this.#open.set(use.id, { use, count: 1 });
    else beside.count++;
    try {
      const before = await this.#find(use.id);
      if (before === null || before.hash === use.hash) return use;
      this.#close(use);
      return misused(request.key, before.target);
    } catch (thrown) {
      this.#close(use);
      throw thrown;
    }
  }

  /**
   * Ends a use of a key; resolves when every node that may get the key again can know the use. `isUsed`: the request may have
   * had an effect.
   */
  async end(use: KeyUse, isUsed: boolean): Promise<void> {
    const written = isUsed ? this.#keep(use) : null;
    this.#close(use);
    if (this.#isShared) await written;
  }

  /** Resolves when all uses of keys are stored. */
  async close(): Promise<void> {
    await Promise.all(this.#writes);
  }

  #close({ id }: KeyUse): void {
    const open = this.#open.get(id);
    if (open !== undefined && --open.count === 0) this.#open.delete(id);
  }

  async #find(id: string): Promise<Kept | null> {
    const now = this.#clock.now();
    const known = this.#known.get(id);
    if (known !== undefined) return known.until > now ? known : null;
    const kept = await readDocument(this.#store, KEY_FORM, id);
    return kept !== null && kept.until > now ? kept : null;
  }

  #keep({ id, hash, target }: KeyUse): Promise<void> {
    const now = this.#clock.now();
    const known = this.#known.get(id);
    if (known !== undefined && known.hash === hash && known.until > now) return Promise.resolve();
    const kept: Kept = { hash, target, until: now + KEPT_MS };
    this.#known.set(id, kept);
    if (this.#known.size > MEMORY_MAX) this.#known.delete(this.#known.keys().next().value as string);
    return this.#track(this.#store.putDocument(KIND, id, JSON.stringify(kept)));
  }

  /** If a use of a key cannot be stored, only the memory of this node keeps it. */
  #track(work: Promise<void>): Promise<void> {
    const tracked: Promise<void> = work
      .catch((thrown: unknown) => this.#onFault(toError(thrown)))
      .finally(() => this.#writes.delete(tracked));
    this.#writes.add(tracked);
    return tracked;
  }
}

/** Makes the identity of a use: the same key of another caller or project is another key. */
function useOf({ caller, key, target, body }: KeyedRequest): KeyUse {
  const wanted = (body as { project?: unknown } | undefined)?.project;
  const project = caller.project ?? (typeof wanted === "string" ? wanted : "");
  // A token for one execution has its own keys, apart from those of the token that it was made with.
  const holder = caller.grant === undefined ? (caller.token ?? caller.name) : caller.countedBy;
  return {
    id: sha256(JSON.stringify([holder, project, key])).slice(0, 40),
    hash: contentHash([target, (body ?? null) as Json]),
    target: target.slice(0, TARGET_CHARS_MAX),
  };
}

function misused(key: string, target: string): Rejection {
  return reject(
    "conflict",
    `the Idempotency-Key "${key.slice(0, 60)}" was used before, with another request: ${target}`,
    { path: "Idempotency-Key", hint: "use a new key for a new request, and the same one only to repeat it" },
  );
}
