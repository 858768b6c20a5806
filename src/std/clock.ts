import { SteadyTime } from "./steady-time.ts";

/** The clock port. All code that needs the time or a timer gets a clock; tests and the simulator have their own clocks. */
export interface Clock {
  /** Wall time in integer milliseconds. */
  now(): number;
  /** Calls `run` once after about `ms` milliseconds; the returned function cancels the call. */
  after(ms: number, run: () => void): () => void;
  /** Calls `run` soon, after pending input of the process was handled. */
  soon(run: () => void): void;
  /** The total number of milliseconds by which `now` has jumped forward because the machine's clock was set. */
  stepped?(): number;
}

const LONGEST_TIMER_MS = 2_000_000_000;

// The timer functions are captured when this module is loaded. A test may replace the global ones with fake timers later, and
// then no timer would run. They are called without `this`, because browsers refuse timer functions that are called on another
// object than the window.
const startTimer = globalThis.setTimeout;
const stopTimer = globalThis.clearTimeout;
const startImmediate = globalThis.setImmediate;
const dateNow = Date.now.bind(Date);
const elapsed = performance.now.bind(performance);

/** The machine's clock, made monotonic. Its timers do not keep the process alive unless `hold` is set. */
export function systemClock(options: { hold?: boolean } = {}): Clock {
  const time = new SteadyTime({ wall: () => dateNow(), elapsed: () => elapsed() });
  return {
    now: () => time.now(),
    stepped: () => time.stepped,
    after(ms, run) {
      let timer: NodeJS.Timeout;
      // A wait that is longer than the maximum of a timer is split into several.
      const arm = (left: number): void => {
        const piece = Math.min(left, LONGEST_TIMER_MS);
        timer = startTimer(() => (left > piece ? arm(left - piece) : run()), piece);
        if (!options.hold) timer.unref();
      };
      arm(Math.max(0, ms));
      return () => stopTimer(timer);
    },
    soon(run) {
      startImmediate(run);
    },
  };
}
