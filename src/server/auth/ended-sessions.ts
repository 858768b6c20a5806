/**
 * Dashboard sessions that were ended early, whose cookies are invalid. Each is kept until the time at which it would have
 * expired.
 */
import type { Clock } from "../../std/clock.ts";
import { number } from "../../std/decode.ts";
import { type Rejection, reject } from "../../std/rejection.ts";
import { allDocuments, jsonForm } from "../../store/document-form.ts";
import type { DocumentStore } from "../../store/store.ts";
import { FreshCopy } from "./fresh-copy.ts";
import { hashSecret } from "./secrets.ts";
import type { Session } from "./session-cookie.ts";

export interface EndedSessionsParts {
  readonly store: DocumentStore;
  readonly clock: Clock;
  /** Whether other nodes of a cluster end sessions too. */
  readonly isShared?: boolean;
  readonly onFault?: (fault: Error) => void;
}

const KIND = "ended-session";
/** The form of the documents of ended sessions: each contains the time at which the session would have expired. */
export const SESSION_FORM = jsonForm<number>(KIND, number);
/** The most ended sessions that the node keeps: more than can end within the life of one session. */
const ENDED_MAX = 10_000;

export class EndedSessions {
  readonly #store: DocumentStore;
  readonly #clock: Clock;
  /** The time at which each ended session would have expired, by the hash of the session's signature. */
  readonly #until = new Map<string, number>();
  #copy: FreshCopy | null = null;

  private constructor(store: DocumentStore, clock: Clock) {
    this.#store = store;
    this.#clock = clock;
  }

  static async open(parts: EndedSessionsParts): Promise<EndedSessions> {
    const { store, clock, isShared = false, onFault = () => undefined } = parts;
    const ended = new EndedSessions(store, clock);
    await ended.#read();
    await ended.#forget();
    if (isShared) ended.#copy = new FreshCopy({ clock, read: () => ended.#read(), onFault });
    return ended;
  }

  close(): void {
    this.#copy?.close();
  }

  has({ signature }: Session): boolean {
    return this.#until.size > 0 && this.#until.has(hashSecret(signature));
  }

  /** Ends a session. Resolves when the end of the session is durable. */
  async end({ signature, until }: Session): Promise<Rejection | null> {
    await this.#forget();
    if (this.#until.size >= ENDED_MAX)
      return reject("rate_limited", "too many sessions were ended today", {
        hint: "revoke the token instead",
      });
    const id = hashSecret(signature);
    this.#until.set(id, until);
    await this.#store.putDocument(KIND, id, String(until));
    return null;
  }

  /** An ended session never becomes valid again, so a read only adds sessions to the ones that are known here. */
  async #read(): Promise<void> {
    // A damaged entry still marks its session as ended.
    for await (const ended of allDocuments(this.#store, SESSION_FORM))
      this.#until.set(ended.id, ended.damage === undefined ? ended.value : Number.POSITIVE_INFINITY);
  }

  /** Deletes entries of sessions that would have expired by now. */
  async #forget(): Promise<void> {
    const now = this.#clock.now();
    for (const [id, until] of [...this.#until]) {
      if (until > now) continue;
      this.#until.delete(id);
      await this.#store.putDocument(KIND, id, null);
    }
  }
}
