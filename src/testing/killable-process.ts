/**
 * Whether a process under test lives, and whether it stands still for a while. All that it can do to the world goes
 * through a clock and a store that stop answering when it is gone. A commit takes a turn to reach the store, so one that
 * is under way when the process dies was never made.
 */
import type { Clock } from "../std/clock.ts";
import type { Store } from "../store/store.ts";

/** What `ended` resolves with: a value that no engine gives. */
export const ENDED = Symbol("ended");

export class KillableProcess {
  /** Resolves when the life is over. */
  readonly ended: Promise<typeof ENDED>;
  #resolveEnd: (end: typeof ENDED) => void = () => {};
  #isOn = true;
  readonly #clock: Clock;
  /** It stands still until then, by its clock. */
  #frozenUntil = Number.NEGATIVE_INFINITY;

  constructor(clock: Clock) {
    this.#clock = clock;
    this.ended = new Promise((resolve) => {
      this.#resolveEnd = resolve;
    });
  }

  get isOn(): boolean {
    return this.#isOn;
  }

  get isFrozen(): boolean {
    return this.#frozenUntil > this.#clock.now();
  }

  /** Ends it as `kill -9` would. */
  kill(): void {
    this.#isOn = false;
    this.#resolveEnd(ENDED);
  }

  /** SIGSTOP for a while. */
  freeze(ms: number): void {
    this.#frozenUntil = this.#clock.now() + ms;
  }

  /** A clock as far as the living see it. */
  clock(clock: Clock): Clock {
    const whileOn = (run: () => void) => () => this.#thawed(run);
    return {
      now: () => clock.now(),
      after: (ms, run) => clock.after(ms, whileOn(run)),
      soon: (run) => clock.soon(whileOn(run)),
    };
  }

  /** A store as far as the living see it: what the dead asked for is neither done nor answered. */
  store<S extends Store>(store: S): S {
    return new Proxy(store, {
      get: (target, name) => {
        const method: unknown = Reflect.get(target, name, target);
        if (typeof method !== "function") return method;
        return async (...given: unknown[]) => {
          if (name === "commit") await new Promise<void>((resolve) => this.#clock.soon(resolve));
          await this.#awake();
          const result: unknown = await Reflect.apply(method, target, given);
          await this.#awake();
          return result;
        };
      },
    });
  }

  /** Resolves when the process can go on: never, if it is gone. */
  #awake(): Promise<void> | undefined {
    if (this.#isOn && !this.isFrozen) return undefined;
    return new Promise((resolve) => this.#thawed(resolve));
  }

  #thawed(run: () => void): void {
    if (!this.#isOn) return;
    if (this.isFrozen) this.#clock.after(this.#frozenUntil - this.#clock.now(), () => this.#thawed(run));
    else run();
  }
}
