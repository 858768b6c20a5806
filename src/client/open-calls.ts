/** Calls that wait for a server, each with a controller that ends it. All of them end when their client or handle is closed. */
export class OpenCalls {
  /** The set is created with the first call, because most handles have no waiting calls. */
  #open: Set<AbortController> | null = null;
  #ended: { readonly reason: unknown } | null = null;

  /** Adds a call. If `end` was called before, the call ends at once. */
  add(call: AbortController): void {
    if (this.#ended !== null) return call.abort(this.#ended.reason);
    this.#open ??= new Set();
    this.#open.add(call);
  }

  delete(call: AbortController): void {
    this.#open?.delete(call);
  }

  /** Ends all open calls. Calls that are added later end at once. */
  abort(reason: unknown): void {
    this.#ended ??= { reason };
    for (const call of this.#open ?? []) call.abort(reason);
    this.#open = null;
  }
}
