/** The state of a repeated scan of the store. `invalidate` marks a scan as stale when rows are stored during it. */
export class StoreScan {
  #isRunning = false;
  #isStale = false;

  get isRunning(): boolean {
    return this.#isRunning;
  }

  start(): void {
    this.#isRunning = true;
  }

  /** Marks the running scan, if there is one, as stale. */
  invalidate(): void {
    this.#isStale = this.#isRunning;
  }

  /** Ends the scan. Returns true if rows were stored during the scan, so that its result may be incomplete. */
  finish(): boolean {
    const isStale = this.#isStale;
    this.#isRunning = false;
    this.#isStale = false;
    return isStale;
  }
}
