/**
 * One life of a Rondo under test: an engine and its worker from open to crash or close. All that they can do to the
 * world goes through a clock and a store that stop answering when the life is over, as if the process were gone. A
 * commit takes a turn to reach the store, so one that is under way when the process dies was never made.
 */
import { Engine } from "../engine/driver.ts";
import type { Settings } from "../engine/settings.ts";
import { LocalRondo, type LogLine } from "../local/local-rondo.ts";
import type { Clock } from "../std/clock.ts";
import type { Random } from "../std/random.ts";
import { MemoryStore } from "../store/memory/memory-store.ts";
import type { MemoryTables } from "../store/memory/memory-tables.ts";
import type { Store } from "../store/store.ts";
import type { HostedWorkflow } from "../worker/handler-code.ts";
import type { ScriptOptions } from "../worker/script-runner.ts";

export interface LifeOptions {
  readonly tables: MemoryTables;
  readonly clock: Clock;
  readonly random: Random;
  readonly capacity: number;
  readonly settings: Partial<Settings>;
  readonly onLog: (line: LogLine) => void;
  /** What goes wrong with commits, if anything does. */
  readonly faults?: { commit<T>(write: () => Promise<T>): Promise<T> };
  /** How scripts are run: for real, in their sandbox. */
  readonly scripts: ScriptOptions;
  /** Gets why the engine stopped by itself: a bug, always. */
  readonly onStop: (reason: Error) => void;
}

/** What `ended` resolves with: a value that no engine gives. */
export const ENDED = Symbol("ended");

export class Life {
  readonly rondo: LocalRondo;
  /** Resolves when the life is over. */
  readonly ended: Promise<typeof ENDED>;
  readonly #engine: Engine;
  readonly #end: () => void;

  private constructor(parts: { engine: Engine; rondo: LocalRondo; ended: Life["ended"]; end: () => void }) {
    this.#engine = parts.engine;
    this.rondo = parts.rondo;
    this.ended = parts.ended;
    this.#end = parts.end;
  }

  static async begin(options: LifeOptions, workflows: readonly HostedWorkflow[]): Promise<Life> {
    let isOn = true;
    let tellEnd: (end: typeof ENDED) => void = () => {};
    const ended = new Promise<typeof ENDED>((resolve) => {
      tellEnd = resolve;
    });
    const end = () => {
      isOn = false;
      tellEnd(ENDED);
    };
    const { tables, random, capacity, settings, scripts, onLog, onStop } = options;
    const clock = switched(options.clock, () => isOn);
    const store = mortal(faulty(new MemoryStore(tables), options.faults), clock, () => isOn);
    const engine = await Engine.open({ store, clock, settings, onStop });
    const rondo = new LocalRondo({
      engine,
      store,
      clock,
      random,
      capacity,
      scripts,
      onLog,
      onBug: (thrown) => onStop(thrown instanceof Error ? thrown : new Error(String(thrown))),
    });
    return new Life({ engine, rondo: rondo.serve(...workflows), ended, end });
  }

  /** True while attempts run: then user code may be at work. */
  get isAtWork(): boolean {
    return this.#engine.openLeases > 0;
  }

  /** Ends it as `kill -9` would. */
  kill(): void {
    this.#end();
  }
}

/** The clock as far as the living see it. */
function switched(clock: Clock, isOn: () => boolean): Clock {
  const whileOn = (run: () => void) => () => {
    if (isOn()) run();
  };
  return {
    now: () => clock.now(),
    after: (ms, run) => clock.after(ms, whileOn(run)),
    soon: (run) => clock.soon(whileOn(run)),
  };
}

/** The store, with commits that go wrong. */
function faulty(store: Store, faults: LifeOptions["faults"]): Store {
  if (faults === undefined) return store;
  const commit = store.commit.bind(store);
  store.commit = (content) => faults.commit(() => commit(content));
  return store;
}

/** The store as far as the living see it: what the dead asked for is neither done nor answered. */
function mortal(store: Store, clock: Clock, isOn: () => boolean): Store {
  return new Proxy(store, {
    get(target, name) {
      const method: unknown = Reflect.get(target, name, target);
      if (typeof method !== "function") return method;
      return async (...given: unknown[]) => {
        if (name === "commit") await new Promise<void>((resolve) => clock.soon(resolve));
        if (!isOn()) return new Promise(() => {});
        const result: unknown = await Reflect.apply(method, target, given);
        return isOn() ? result : new Promise(() => {});
      };
    },
  });
}
