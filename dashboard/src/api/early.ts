/**
 * Sends the requests that the first page certainly needs at once: while its code is loading, and while the node identifies the
 * user. Each answer is used once.
 */
const early = new Map<string, Promise<Response>>();

/** Sends early requests to addresses of the API. */
export function askEarly(addresses: readonly string[]): void {
  for (const address of addresses) {
    const answer = fetch(address);
    early.set(address, answer);
    // The code that uses the answer handles its failure.
    answer.catch(() => {});
  }
}

/** Returns and removes the answer of an early request; null if there is none. */
export function takeEarly(address: string): Promise<Response> | null {
  const answer = early.get(address) ?? null;
  early.delete(address);
  return answer;
}

/** Drops the answers to early requests of another user. */
export function dropEarly(): void {
  early.clear();
}
