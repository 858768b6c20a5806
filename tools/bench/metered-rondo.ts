/** Rondo over a directory, with a meter on its commits: their number, size and duration. */

import { openInProcess } from "../../src/compose/compose.ts";
import type { Rondo } from "../../src/index.ts";
import { decorate } from "../../src/std/decorate.ts";
import { openSqliteStore } from "../../src/store/sqlite/sqlite-store.ts";
import type { Commit, Store } from "../../src/store/store.ts";
import type { Figures } from "./scenario.ts";

export interface MeteredRondo {
  readonly rondo: Rondo;
  readonly store: Store;
  readonly meter: Meter;
}

/** Opens Rondo as a program would. Hosts no workflow yet. */
export async function openMetered(directory: string): Promise<MeteredRondo> {
  const meter = new Meter();
  const store = withMeter(openSqliteStore({ directory }), meter);
  return { rondo: await openInProcess({ store }), store, meter };
}

/** Counts between `reset` and `figures`. */
export class Meter {
  #commits = 0;
  #writes = 0;
  #commitMs = 0;
  #from = 0;
  #cpu = process.cpuUsage();
  #loop = performance.eventLoopUtilization();

  reset(): void {
    this.#commits = 0;
    this.#writes = 0;
    this.#commitMs = 0;
    this.#from = performance.now();
    this.#cpu = process.cpuUsage();
    this.#loop = performance.eventLoopUtilization();
  }

  note(commit: Commit, ms: number): void {
    this.#commits++;
    this.#writes += commit.writes.length;
    this.#commitMs += ms;
  }

  get seconds(): number {
    return (performance.now() - this.#from) / 1_000;
  }

  /**
   * Shows the bottleneck: a main thread that is always busy, or a commit that is always under way. CPU time per item covers all
   * threads; on a shared machine it is the steadiest figure.
   */
  figures(items: number): Figures {
    const ms = performance.now() - this.#from;
    const { user, system } = process.cpuUsage(this.#cpu);
    return {
      cpuMicrosPerItem: (user + system) / items,
      mainThreadBusy: performance.eventLoopUtilization(this.#loop).utilization,
      commitUnderWay: this.#commitMs / ms,
      commits: this.#commits,
      writesPerCommit: this.#writes / Math.max(1, this.#commits),
      msPerCommit: this.#commitMs / Math.max(1, this.#commits),
    };
  }
}

function withMeter(store: Store, meter: Meter): Store {
  return decorate(store, {
    commit: async (content) => {
      const from = performance.now();
      const verdict = await store.commit(content);
      meter.note(content, performance.now() - from);
      return verdict;
    },
  });
}
