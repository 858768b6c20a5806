/** The chunks of a stream that count, from its pieces. It runs in browsers, too. */
import type { Json } from "../std/json.ts";
import type { ExecutionStream, StreamPiece } from "./handle.ts";

/**
 * Gathers the chunks of a stream that count. A writer (a step of a task, or its code outside of steps) that begins again replaces
 * its earlier chunks, in their place among those of other writers.
 */
export class StreamFold<Chunk = Json> {
  /** The chunks by writer, in the order in which the writers first wrote. */
  readonly #writers = new Map<string, Chunk[]>();

  /** Whether the last piece was the end of the stream. */
  hasEnded = false;

  /** Adds the next piece of the stream. Returns whether it replaces earlier chunks. */
  add({ phase, visit, handler, task, step, index, chunks, end }: StreamPiece<Chunk>): boolean {
    this.hasEnded = end === true;
    if (this.hasEnded) return false;
    const key = JSON.stringify([phase, visit, handler, task, step ?? null]);
    const known = this.#writers.get(key);
    if (known === undefined || index === 0) this.#writers.set(key, [...chunks]);
    else known.push(...chunks);
    return known !== undefined && index === 0;
  }

  /** The chunks that count, in their order. */
  get chunks(): readonly Chunk[] {
    return [...this.#writers.values()].flat(1);
  }
}

/** A stream over a function that reads its pieces. */
export function executionStream<Chunk>(
  read: (follow: boolean) => AsyncIterable<StreamPiece<Chunk>>,
  { follow = true }: { readonly follow?: boolean },
): ExecutionStream<Chunk> {
  return {
    [Symbol.asyncIterator]: () => read(follow)[Symbol.asyncIterator](),
    async chunks(options = {}) {
      const fold = new StreamFold<Chunk>();
      for await (const piece of read(options.follow === true)) fold.add(piece);
      return fold.chunks;
    },
  };
}
