/**
 * Notices changes that other nodes make to schedules in a shared store.
 * 1. Every two seconds it reads the mark, a document that changes with each change of a schedule. If the mark has changed, it reads all
 *    schedules. It also reads them once a minute, because the mark is written after the change, and a node can die in between.
 * 2. For a changed schedule of this node, the runner decides again.
 * 3. When partitions move, the runner decides at once about schedules that belong to this node now, and drops the others.
 */
import type { Clock } from "../std/clock.ts";
import { toError } from "../std/to-error.ts";
import type { ScheduleRunner } from "./schedule-runner.ts";
import type { ScheduleStore } from "./schedule-store.ts";

export interface ScheduleWatchOptions {
  readonly clock: Clock;
  readonly schedules: ScheduleStore;
  readonly runner: ScheduleRunner;
  readonly isMine: (id: string) => boolean;
  readonly onMoved: (listener: () => void) => () => void;
  readonly onFault: (fault: Error) => void;
}

const CHECK_MS = 2_000;
const CHECKS_PER_READ = 30;

/** The state of a schedule that was read last. */
interface Seen {
  readonly name: string;
  readonly isMine: boolean;
}

export class ScheduleWatch {
  readonly #options: ScheduleWatchOptions;
  #seen = new Map<string, Seen>();
  #mark: string | null = null;
  #checks = 0;
  #unlisten: () => void = () => undefined;
  #cancel: () => void = () => undefined;
  #isClosed = false;

  constructor(options: ScheduleWatchOptions) {
    this.#options = options;
  }

  /** Reads all schedules and begins to watch. Throws if the store fails. */
  async begin(): Promise<void> {
    this.#unlisten = this.#options.onMoved(() => this.#moved());
    await this.#check();
    this.#later();
  }

  close(): void {
    this.#isClosed = true;
    this.#unlisten();
    this.#cancel();
  }

  #later(): void {
    if (this.#isClosed) return;
    this.#cancel = this.#options.clock.after(CHECK_MS, () => {
      void this.#check()
        .catch((thrown: unknown) => {
          this.#mark = null;
          this.#options.onFault(toError(thrown));
        })
        .then(() => this.#later());
    });
  }

  async #check(): Promise<void> {
    const mark = await this.#options.schedules.readMark();
    if (mark === this.#mark && ++this.#checks < CHECKS_PER_READ) return;
    this.#checks = 0;
    // If schedules change during this read, the mark changes too, and the next check of the mark finds that.
    this.#mark = mark;
    await this.#readAll();
  }

  async #readAll(): Promise<void> {
    const { schedules, runner, isMine } = this.#options;
    const seen = new Map<string, Seen>();
    for await (const { id, name } of schedules.said()) {
      if (this.#isClosed) return;
      const before = this.#seen.get(id);
      const now: Seen = { name, isMine: isMine(id) };
      seen.set(id, now);
      this.#seen.set(id, now);
      if (before?.name !== name || before.isMine !== now.isMine) runner.changed(id);
    }
    for (const id of this.#seen.keys()) if (!seen.has(id)) runner.drop(id);
    this.#seen = seen;
  }

  #moved(): void {
    const { runner, isMine } = this.#options;
    for (const [id, seen] of this.#seen) {
      if (isMine(id) === seen.isMine) continue;
      this.#seen.set(id, { ...seen, isMine: !seen.isMine });
      runner.changed(id);
    }
  }
}
