/**
 * What the first page is sure to ask for, asked for at once: while its code is on its way, and while the node finds out who
 * is there. Each answer is taken once.
 */
const early = new Map<string, Promise<Response>>();

/** Asks for addresses of the API. */
export function askEarly(addresses: readonly string[]): void {
  for (const address of addresses) {
    const answer = fetch(address);
    early.set(address, answer);
    // Who takes it sees the failure.
    answer.catch(() => {});
  }
}

/** What was asked for early; null: nothing, or it was taken. */
export function takeEarly(address: string): Promise<Response> | null {
  const answer = early.get(address) ?? null;
  early.delete(address);
  return answer;
}

/** Forgets what was asked for as somebody else. */
export function dropEarly(): void {
  early.clear();
}
