/**
 * The routes of events, and whether a queue is bound to them. A route is an exchange with a routing key.
 *
 * 1. If no queue is bound to a route, nobody gets its messages, so its events need not be published.
 * 2. Bindings change at any time, and the broker does not announce them. So each message is published as mandatory: the broker returns it
 *    if no queue is bound.
 * 3. A returned message shows that no queue was bound for all events that were committed before it was published. A queue that is bound
 *    later does not expect those events.
 * 4. An event that is committed later needs another message, because a queue may be bound by then.
 */

/** The most routes that are kept in memory. If there are more, all are forgotten, and their bindings are tested again. */
const ROUTES_MAX = 1_000;

export class EventRoutes {
  readonly #routes = new Map<string, Route>();

  get(name: string): Route {
    let route = this.#routes.get(name);
    if (route === undefined) {
      if (this.#routes.size >= ROUTES_MAX) this.#routes.clear();
      route = new Route();
      this.#routes.set(name, route);
    }
    return route;
  }
}

/** A route, with what is known about its bindings. An event has the number of its commit. */
export class Route {
  /** Whether a queue was bound when the broker answered the last message. */
  #isBound = false;
  /** The number of the last commit of which it is known that no queue was bound when it was made. */
  #unboundAt = 0;
  /** A published message whose answer will show whether a queue is bound; null if none is under way. */
  #probe: { readonly settled: Promise<void>; readonly settle: () => void } | null = null;

  /** Whether the answer to a message that is under way decides whether the event has to be published. */
  isUndecided(number: number): boolean {
    return this.#probe !== null && !this.#isBound && number > this.#unboundAt;
  }

  /** Waits until it is known whether the event has to be published. */
  async decided(number: number): Promise<void> {
    while (this.isUndecided(number)) await this.#probe?.settled;
  }

  /** Whether the event has to be published: a queue is bound, or it is not known whether one is. */
  isHeard(number: number): boolean {
    return this.#isBound || number > this.#unboundAt;
  }

  /**
   * Called when a message is published; all events up to `number` were committed before. Returns a function, to be called with whether a
   * queue accepted the message.
   */
  sent(number: number): (isRouted: boolean) => void {
    let probe = this.#probe;
    if (probe === null && !this.#isBound) {
      let settle = (): void => {};
      const settled = new Promise<void>((resolve) => {
        settle = resolve;
      });
      probe = { settled, settle };
      this.#probe = probe;
    }
    return (isRouted) => {
      this.#isBound = isRouted;
      if (!isRouted) this.#unboundAt = Math.max(this.#unboundAt, number);
      if (probe === null || probe !== this.#probe) return;
      this.#probe = null;
      probe.settle();
    };
  }
}
