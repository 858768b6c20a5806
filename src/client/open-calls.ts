/** Calls that wait for a server, each with a controller that ends it. All of them end when their client or handle is closed. */
export class OpenCalls {
  /** Made with the first call, because most handles never wait. */
  #open: Set<AbortController> | null = null;
  #ended: { readonly reason: unknown } | null = null;

  /** Adds a call. It ends at once if the calls have ended. */
  add(call: AbortController): void {
    if (this.#ended !== null) return call.abort(this.#ended.reason);
    this.#open ??= new Set();
    this.#open.add(call);
  }

  delete(call: AbortController): void {
    this.#open?.delete(call);
  }

  /** Ends all calls, and those that are added later. */
  abort(reason: unknown): void {
    this.#ended ??= { reason };
    for (const call of this.#open ?? []) call.abort(reason);
    this.#open = null;
  }
}
