/** The desk over a memory store, with a clock that is moved by hand and an engine that only remembers. */
import { onTestFinished } from "vitest";
import type { ScheduledStart, ScheduleEngine } from "../../src/schedule/schedule-runner.ts";
import { Schedules } from "../../src/schedule/schedules.ts";
import { type Rejection } from "../../src/std/rejection.ts";
import { MemoryStore } from "../../src/store/memory/memory-store.ts";
import { MemoryTables } from "../../src/store/memory/memory-tables.ts";
import { VirtualClock } from "../../src/testing/virtual-clock.ts";

export const MINUTE = 60_000;

/** Executions by id, with the time of their start; those in `open` have not ended. */
class Executions implements ScheduleEngine {
  readonly started: (ScheduledStart & { readonly at: number })[] = [];
  readonly #ids = new Set<string>();
  readonly open = new Set<string>();
  readonly watchers = new Map<string, () => void>();
  /** What the next starts meet instead of success. */
  readonly troubles: (Error | Rejection)[] = [];
  calls = 0;
  readonly #clock: VirtualClock;

  constructor(clock: VirtualClock) {
    this.#clock = clock;
  }

  async start(request: ScheduledStart): Promise<Rejection | { id: string }> {
    this.calls++;
    const trouble = this.troubles.shift();
    if (trouble instanceof Error) throw trouble;
    if (trouble !== undefined) return trouble;
    if (!this.#ids.has(request.id)) {
      this.#ids.add(request.id);
      this.started.push({ ...request, at: this.#clock.now() });
      this.open.add(request.id);
    }
    return { id: request.id };
  }

  async isOpen(execution: string): Promise<boolean> {
    return this.open.has(execution);
  }

  async exists(execution: string): Promise<boolean> {
    return this.#ids.has(execution);
  }

  onEnd(execution: string, ended: () => void): () => void {
    this.watchers.set(execution, ended);
    return () => void this.watchers.delete(execution);
  }

  end(execution: string): void {
    this.open.delete(execution);
    this.watchers.get(execution)?.();
  }
}

/** A world of schedules; what is opened in it is closed with the test. */
export async function world() {
  const clock = new VirtualClock();
  const tables = new MemoryTables();
  const engine = new Executions(clock);
  const faults: Error[] = [];
  const beginning = clock.now();
  const open = async (): Promise<Schedules> => {
    const store = new MemoryStore(tables);
    await store.open();
    await store.putDefinition("report", "hash", "{}");
    const desk = await Schedules.open({
      clock,
      store,
      start: (request) => engine.start(request),
      isOpen: (execution) => engine.isOpen(execution),
      exists: (execution) => engine.exists(execution),
      onEnd: (execution, ended) => engine.onEnd(execution, ended),
      onFault: (fault) => faults.push(fault),
    });
    onTestFinished(() => desk.close());
    return desk;
  };
  /** Ids of what was started, with minutes since the beginning for due times. */
  const fired = (): string[] =>
    engine.started.map(({ id }) => {
      const [schedule, due] = id.split("~");
      return `${schedule}~${(Number(due) - beginning) / MINUTE}`;
    });
  /** Minutes since the beginning at which the starts came. */
  const firedAt = (): number[] => engine.started.map(({ at }) => (at - beginning) / MINUTE);
  return { clock, engine, faults, fired, firedAt, open, beginning, tables };
}
