/**
 * A simulated process that a test can kill and freeze. While it is frozen or dead, its timers do not fire, and its store does not answer.
 */
import type { Clock } from "../std/clock.ts";
import type { Store } from "../store/store.ts";

/** The value that `ended` resolves with. No engine ever returns this value. */
export const ENDED = Symbol("ended");

export class KillableProcess {
  /** Resolves when the process is killed. */
  readonly ended: Promise<typeof ENDED>;
  #resolveEnd: (end: typeof ENDED) => void = () => {};
  #isOn = true;
  readonly #clock: Clock;
  /** The time until which the process is frozen. */
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

  /** Kills the process, as `kill -9` does. */
  kill(): void {
    this.#isOn = false;
    this.#resolveEnd(ENDED);
  }

  /** Stops the process for a while, as SIGSTOP does. */
  freeze(ms: number): void {
    this.#frozenUntil = this.#clock.now() + ms;
  }

  /** A clock whose timers do not fire while the process is frozen or after it is killed. */
  clock(clock: Clock): Clock {
    const whileOn = (run: () => void) => () => this.#thawed(run);
    return {
      now: () => clock.now(),
      after: (ms, run) => clock.after(ms, whileOn(run)),
      soon: (run) => clock.soon(whileOn(run)),
    };
  }

  /** A store that neither executes nor answers calls of a killed process, and delays those of a frozen one. */
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

  /** Resolves when the process is not frozen; never if it was killed. */
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
