/** Calls that wait for a server, each with a controller that ends it. All of them end when their client or handle is closed. */
import { TransientMap } from "../std/transient-map.ts";

export class OpenCalls {
  readonly #open = new TransientMap<number, AbortController>();
  #added = 0;
  #ended: { readonly reason: unknown } | null = null;

  /** Adds a call. If `abort` was called before, it aborts the call at once. The returned function removes the call. */
  add(call: AbortController): () => void {
    if (this.#ended !== null) {
      call.abort(this.#ended.reason);
      return () => {};
    }
    const n = ++this.#added;
    this.#open.set(n, call);
    return () => void this.#open.delete(n);
  }

  /** Ends all open calls. Calls that are added later end at once. */
  abort(reason: unknown): void {
    this.#ended ??= { reason };
    for (const call of this.#open.values()) call.abort(reason);
    this.#open.clear();
  }
}
