/** Computes the current chunks of a stream from its stored pieces. This code also runs in browsers. */
import type { Json } from "../std/json.ts";
import type { ExecutionStream, StreamPiece } from "./handle.ts";

/**
 * Gathers the current chunks of a stream. A writer is a step of a task, or the task's code outside of steps. If a writer begins
 * again, its new chunks replace its earlier ones, in the same place among the chunks of other writers.
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

  /** The current chunks: grouped by writer, in the order in which the writers first wrote. */
  get chunks(): readonly Chunk[] {
    return [...this.#writers.values()].flat(1);
  }
}

/** Makes a stream that an execution's handle returns, from a function that reads its pieces. */
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
