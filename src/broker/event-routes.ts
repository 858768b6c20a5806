/**
 * The routes of events, each of which is an exchange with a routing key, and whether a queue is bound for them. Nobody gets a
 * message for which no queue is bound, so it need not be published. Bindings change at any time, and the broker does not announce
 * them. So each message is published as mandatory, and the broker returns it if there is no queue for it. That also holds for
 * all events of the route that were committed before the message was published: a queue that is bound later does not expect them.
 * Events that are committed after that need another message.
 */

/** The most routes that are kept. A route that was forgotten is found out again. */
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

/** A route. Events have the numbers of their commits. */
export class Route {
  /** Whether a queue accepted the last message. */
  #isBound = false;
  /** No queue was bound when the events up to this number had been committed. */
  #unboundAt = 0;
  /** The message on its way that shows whether a queue is bound. */
  #probe: { readonly settled: Promise<void>; readonly settle: () => void } | null = null;

  /** Whether a message that is on its way decides whether the event is published. */
  isUndecided(number: number): boolean {
    return this.#probe !== null && !this.#isBound && number > this.#unboundAt;
  }

  /** Resolves when it is decided whether the event is published. */
  async decided(number: number): Promise<void> {
    while (this.isUndecided(number)) await this.#probe?.settled;
  }

  /** Whether the event is to be published: a queue is bound, or that is not known. */
  isHeard(number: number): boolean {
    return this.#isBound || number > this.#unboundAt;
  }

  /**
   * Called when a message is published after all events up to this number were committed. Returns a function to be called with
   * whether a queue accepted it.
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
