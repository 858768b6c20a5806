import { SteadyTime } from "./steady-time.ts";

/** The clock port. All code that needs time or a timer takes one; tests and the simulator have their own. */
export interface Clock {
  /** Wall time in integer milliseconds. */
  now(): number;
  /** Calls `run` once after about `ms` milliseconds; the returned function cancels. */
  after(ms: number, run: () => void): () => void;
  /** Calls `run` soon, after pending input was handled. */
  soon(run: () => void): void;
  /** The total number of milliseconds by which `now` has jumped forward because the machine's clock was set. */
  stepped?(): number;
}

const LONGEST_TIMER_MS = 2_000_000_000;

/** Captured when this module is loaded: under the fake timers that a test may install later, nothing would run. */
const real = {
  setTimeout: globalThis.setTimeout,
  clearTimeout: globalThis.clearTimeout,
  setImmediate: globalThis.setImmediate,
  dateNow: Date.now.bind(Date),
  elapsed: performance.now.bind(performance),
};

/** The machine's clock, made monotonic. Its timers do not keep the process alive unless `hold` is set. */
export function systemClock(options: { hold?: boolean } = {}): Clock {
  const time = new SteadyTime({ wall: () => real.dateNow(), elapsed: () => real.elapsed() });
  return {
    now: () => time.now(),
    stepped: () => time.stepped,
    after(ms, run) {
      let timer: NodeJS.Timeout;
      // A wait above the maximum of a timer is split into several.
      const arm = (left: number): void => {
        const piece = Math.min(left, LONGEST_TIMER_MS);
        timer = real.setTimeout(() => (left > piece ? arm(left - piece) : run()), piece);
        if (!options.hold) timer.unref();
      };
      arm(Math.max(0, ms));
      return () => real.clearTimeout(timer);
    },
    soon(run) {
      real.setImmediate(run);
    },
  };
}
