/**
 * A feed: something that grows (a journal, logs), read and encoded once for all who follow it.
 *
 * 1. A follower asks for the piece at its own position. Pieces are kept for a while and reads under way are shared, so
 *    that followers who are at the same place cost one read; those behind read what they need in bounded pieces.
 * 2. Who has read all waits for a change. Changes are told at most every so often, less often to many followers: what
 *    came meanwhile goes together.
 * 3. A read belongs to the version of the feed it began at. Only one of the newest version can say that it saw the end.
 */
import type { Clock } from "../../std/clock.ts";

/** What a source gives from a position on. */
export interface SourcePiece {
  /** Server-sent events, encoded. */
  readonly bytes: Buffer;
  /** The position after it. */
  readonly next: string;
  /** There was nothing more behind it. */
  readonly isLast: boolean;
  /** Where the stream ends for those who do not want to go on after the end: so many bytes; null: not here. */
  readonly endsAt: number | null;
}

export interface FeedSource {
  /** From a position on; an empty piece if there is nothing. */
  read(from: string): Promise<SourcePiece>;
  /** Whether nothing more will come after a position at which nothing was found. */
  isOver(): Promise<boolean>;
  /** Tells of changes, of one that may be the last, and that none can come any more; the returned function stops that. */
  watch(tell: (what: "more" | "end" | "stopped") => void): () => void;
}

export interface Piece extends SourcePiece {
  /** The version of the feed at which its reading began. */
  readonly version: number;
}

/** The least time between two changes that are told. */
const QUIET_MS = 50;
/** And for every follower this much more. */
const QUIET_PER_FOLLOWER_MS = 1;
const KEPT_BYTES_MAX = 2_097_152;

export class Feed {
  readonly #source: FeedSource;
  readonly #clock: Clock;
  readonly #unwatch: () => void;
  readonly #kept = new Map<string, Piece>();
  #keptBytes = 0;
  readonly #reading = new Map<string, { readonly version: number; readonly piece: Promise<Piece> }>();
  #waiting: (() => void)[] = [];
  #toldAt = Number.NEGATIVE_INFINITY;
  #isTelling = false;
  /** Grows with every change that is told. */
  version = 0;
  followers = 0;
  isStopped = false;
  /** What it is about has ended, as far as is known here. */
  mayBeOver = false;

  constructor(source: FeedSource, clock: Clock) {
    this.#source = source;
    this.#clock = clock;
    this.#unwatch = source.watch((what) => {
      if (what === "stopped") return this.stop();
      this.mayBeOver = what === "end";
      this.#changed();
    });
  }

  /** The piece at a position. */
  piece(from: string): Promise<Piece> {
    const kept = this.#kept.get(from);
    if (kept !== undefined) return Promise.resolve(kept);
    const reading = this.#reading.get(from);
    if (reading !== undefined && reading.version === this.version) return reading.piece;
    const { version } = this;
    const piece = this.#read(from, version).finally(() => {
      if (this.#reading.get(from)?.piece === piece) this.#reading.delete(from);
    });
    this.#reading.set(from, { version, piece });
    return piece;
  }

  /** Whether a piece is all there is, as far as anybody has been told. */
  isNewest({ isLast, version }: Piece): boolean {
    return isLast && version === this.version;
  }

  /** Whether nothing more will come after what is there. */
  isOver(): Promise<boolean> {
    return this.#source.isOver();
  }

  /** The piece at a position as it is now, by a read of its own. */
  pieceNow(from: string): Promise<Piece> {
    return this.#read(from, this.version);
  }

  /** Resolves when there is more than at a version, or when the feed stops. */
  changed(version: number): Promise<void> {
    if (this.version !== version || this.isStopped) return Promise.resolve();
    return new Promise((resolve) => this.#waiting.push(resolve));
  }

  /** Ends it for all: nobody waits any longer. */
  stop(): void {
    if (this.isStopped) return;
    this.isStopped = true;
    this.#unwatch();
    this.#wake();
  }

  async #read(from: string, version: number): Promise<Piece> {
    const piece = { ...(await this.#source.read(from)), version };
    if (piece.bytes.length > 0) this.#keep(from, piece);
    return piece;
  }

  #keep(from: string, piece: Piece): void {
    this.#keptBytes += piece.bytes.length - (this.#kept.get(from)?.bytes.length ?? 0);
    this.#kept.delete(from);
    this.#kept.set(from, piece);
    for (const [oldest, { bytes }] of this.#kept) {
      if (this.#keptBytes <= KEPT_BYTES_MAX) return;
      this.#kept.delete(oldest);
      this.#keptBytes -= bytes.length;
    }
  }

  #changed(): void {
    if (this.#isTelling || this.isStopped) return;
    this.#isTelling = true;
    const quietMs = QUIET_MS + this.followers * QUIET_PER_FOLLOWER_MS;
    this.#clock.after(Math.max(0, this.#toldAt + quietMs - this.#clock.now()), () => {
      this.#isTelling = false;
      this.#toldAt = this.#clock.now();
      this.#wake();
    });
  }

  #wake(): void {
    this.version++;
    const waiting = this.#waiting;
    this.#waiting = [];
    for (const resolve of waiting) resolve();
  }
}
