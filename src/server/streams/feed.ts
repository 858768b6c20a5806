/**
 * A feed: a journal or a log that grows, read and encoded once for all its followers.
 * 1. A follower requests the piece at its own position. Pieces are cached for a while and running reads are shared, so
 *    followers at the same position cost one read.
 * 2. A follower at the end waits for a change. The first change after a quiet time and the end are announced at once; changes of
 *    a burst are announced at intervals, longer ones for many followers, so that entries are sent together.
 * 3. A read belongs to the version of the feed at which it began. Only a read of the newest version can find the end.
 */
import type { Clock } from "../../std/clock.ts";

/** A piece of a feed's source. */
export interface SourcePiece {
  /** Encoded server-sent events. */
  readonly bytes: Buffer;
  /** The position directly after this piece. */
  readonly next: string;
  /** Whether there is nothing after this piece. */
  readonly isLast: boolean;
  /**
   * How many bytes of this piece are sent to clients that do not follow, because the stream ends there; null if the stream does
   * not end in this piece.
   */
  readonly endsAt: number | null;
}

export interface FeedSource {
  /** Whether a second read at the same position can give another piece, so that pieces are not cached. */
  readonly isTransient?: true;
  /** Reads the piece at a position; an empty piece if there is nothing. */
  read(from: string): Promise<SourcePiece>;
  /** Whether the source has ended, so that no more entries will follow. */
  isOver(): Promise<boolean>;
  /**
   * Calls `notify` when the source has more, may have ended, or cannot change any more. Returns a function that stops the calls.
   */
  watch(notify: (what: "more" | "end" | "stopped") => void): () => void;
}

export interface Piece extends SourcePiece {
  /** The version of the feed at which the read began. */
  readonly version: number;
}

/** The shortest time between two announced changes. */
const QUIET_MS = 50;
/** The additional time between two announced changes for each follower. */
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
  #cancelLater: (() => void) | null = null;
  /** The version of the feed, which grows with every announced change. */
  version = 0;
  followers = 0;
  isStopped = false;
  /** Whether the execution has ended, as far as the feed knows. */
  mayBeOver = false;

  constructor(source: FeedSource, clock: Clock) {
    this.#source = source;
    this.#clock = clock;
    this.#unwatch = source.watch((what) => {
      if (what === "stopped") return this.stop();
      this.mayBeOver = what === "end";
      this.#changed(what === "end");
    });
  }

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

  /** Whether a piece ends at the end of the feed's newest version, so that its reader must wait for a change. */
  isNewest({ isLast, version }: Piece): boolean {
    return isLast && version === this.version;
  }

  isOver(): Promise<boolean> {
    return this.#source.isOver();
  }

  /** Reads the piece at a position now, without the cache. */
  pieceNow(from: string): Promise<Piece> {
    return this.#read(from, this.version);
  }

  /** Resolves when the feed has a newer version, or when it stops. */
  changed(version: number): Promise<void> {
    if (this.version !== version || this.isStopped) return Promise.resolve();
    return new Promise((resolve) => this.#waiting.push(resolve));
  }

  /** Stops the feed for all followers. */
  stop(): void {
    if (this.isStopped) return;
    this.isStopped = true;
    this.#cancelLater?.();
    this.#unwatch();
    this.#wake();
  }

  async #read(from: string, version: number): Promise<Piece> {
    const piece = { ...(await this.#source.read(from)), version };
    if (piece.bytes.length > 0 && this.#source.isTransient !== true) this.#keep(from, piece);
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

  /** The first change after a quiet time and the end are announced at once, other changes together. */
  #changed(isEnd: boolean): void {
    if (this.isStopped) return;
    const quietMs = QUIET_MS + this.followers * QUIET_PER_FOLLOWER_MS;
    const waitMs = isEnd ? 0 : this.#toldAt + quietMs - this.#clock.now();
    if (waitMs <= 0) return this.#announce();
    this.#cancelLater ??= this.#clock.after(waitMs, () => this.#announce());
  }

  #announce(): void {
    this.#cancelLater?.();
    this.#cancelLater = null;
    this.#toldAt = this.#clock.now();
    this.#wake();
  }

  #wake(): void {
    this.version++;
    const waiting = this.#waiting;
    this.#waiting = [];
    for (const resolve of waiting) resolve();
  }
}
