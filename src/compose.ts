/** The one place that names adapters: turns settings into a running Rondo. */
import { Engine } from "./engine/driver.ts";
import type { Settings } from "./engine/settings.ts";
import { LocalRondo, type LogLine } from "./local/local-rondo.ts";
import { type Clock, systemClock } from "./std/clock.ts";
import { type Random, systemRandom } from "./std/random.ts";
import { RondoError, reject } from "./std/rejection.ts";
import { MemoryStore } from "./store/memory/memory-store.ts";
import { openSqliteStore } from "./store/sqlite/sqlite-store.ts";
import type { Store } from "./store/store.ts";

export interface OpenOptions {
  /** `file:<directory>` (default `file:.rondo`) or `memory:`. */
  readonly store?: string | Store;
  /** Items in flight at the worker in this process. */
  readonly capacity?: number;
  readonly clock?: Clock;
  readonly random?: Random;
  readonly settings?: Partial<Settings>;
  /** Gets what handlers log. */
  readonly onLog?: (line: LogLine) => void;
  /** Gets faults of the world that the engine works around, such as a full disk. */
  readonly onFault?: (fault: Error) => void;
  /** Called if the engine had to stop; by default the process ends, since ownership must move on. */
  readonly onStop?: (reason: Error) => void;
}

/** Opens Rondo in this process. */
export async function openRondo(options: OpenOptions = {}): Promise<LocalRondo> {
  const store = typeof options.store === "object" ? options.store : storeOf(options.store ?? "file:.rondo");
  const clock = options.clock ?? systemClock({ hold: true });
  const random = options.random ?? systemRandom;
  const onStop = options.onStop ?? endProcess;
  const engine = await Engine.open({
    store,
    clock,
    onStop,
    onFault: options.onFault ?? ((fault) => console.error(`rondo: ${fault.message}`)),
    ...(options.settings === undefined ? {} : { settings: options.settings }),
  });
  return new LocalRondo({
    engine,
    store,
    clock,
    random,
    capacity: options.capacity ?? 2_000,
    onLog: options.onLog ?? (() => {}),
    onBug: (thrown) => onStop(thrown instanceof Error ? thrown : new Error(String(thrown))),
  });
}

function storeOf(url: string): Store {
  if (url === "memory:") return new MemoryStore();
  if (url.startsWith("file:") && url.length > 5)
    return openSqliteStore({ directory: url.slice(5).replace(/^\/\/(?=\/)/, "") });
  throw new RondoError(
    reject("invalid_input", `"${url}" is not a store this version knows`, {
      path: "store",
      hint: 'use "file:<directory>" or "memory:"',
    }),
  );
}

function endProcess(reason: Error): void {
  console.error(`rondo: the engine stopped: ${reason.stack ?? reason.message}`);
  process.exit(70);
}
