/**
 * Worker sessions over an engine and tables in memory, in virtual time and without HTTP: each call is what a request
 * brings, each answer what it gets. A restart is a new engine over the same tables.
 */
import { onTestFinished } from "vitest";
import { Engine } from "../../src/engine/driver.ts";
import type { Settings } from "../../src/engine/settings.ts";
import { parseDefinition } from "../../src/kernel/definition/parse-definition.ts";
import { compilePlan } from "../../src/kernel/definition/plan.ts";
import type { Event, EventKind } from "../../src/kernel/event.ts";
import { decodeEntry } from "../../src/kernel/journal/journal-entry.ts";
import type { ControlMessage } from "../../src/kernel/message.ts";
import type { ExecutionView } from "../../src/kernel/view.ts";
import type {
  Claimed,
  EventsAnswer,
  HeartbeatAnswer,
  WireEventBody,
  WorkItem,
} from "../../src/protocol/worker-wire.ts";
import { WorkerSessions } from "../../src/server/worker-protocol/worker-sessions.ts";
import { SeededRandom } from "../../src/std/random.ts";
import { isRejection, type Rejection, unwrap } from "../../src/std/rejection.ts";
import { MemoryStore } from "../../src/store/memory/memory-store.ts";
import { MemoryTables } from "../../src/store/memory/memory-tables.ts";
import { VirtualClock } from "../../src/testing/virtual-clock.ts";

/** An event of an attempt, as a test writes it. */
export type Said = readonly [work: WorkItem, n: number, body: WireEventBody];

export class SessionBench {
  readonly clock = new VirtualClock();
  readonly random = new SeededRandom("sessions");
  readonly settings: Partial<Settings>;
  readonly faults: unknown[] = [];
  readonly #tables = new MemoryTables({ random: new SeededRandom(7) });
  store: MemoryStore;
  engine: Engine;
  sessions: WorkerSessions;
  #asked = 0;

  private constructor(settings: Partial<Settings>) {
    this.settings = settings;
    this.store = undefined as never;
    this.engine = undefined as never;
    this.sessions = undefined as never;
  }

  static async open(settings: Partial<Settings> = {}): Promise<SessionBench> {
    const bench = new SessionBench({ claimLeaseMs: 30_000, sweepMs: 1_000, suspectMs: 30_000, ...settings });
    await bench.#open();
    onTestFinished(() => {
      if (bench.faults.length > 0) throw new Error("a fault behind the back", { cause: bench.faults[0] });
    });
    return bench;
  }

  /** The server dies and another opens the same store. */
  async restart(): Promise<void> {
    this.sessions.close();
    await this.#open();
  }

  async #open(): Promise<void> {
    const { clock, random, settings } = this;
    this.store = new MemoryStore(this.#tables);
    this.engine = await Engine.open({
      store: this.store,
      clock,
      settings,
      onFault: (fault) => this.faults.push(fault),
      onStop: () => {},
    });
    this.sessions = new WorkerSessions({
      engine: this.engine,
      store: this.store,
      clock,
      random,
      heartbeatMs: 30_000,
      leaseMs: settings.claimLeaseMs ?? 30_000,
      onFault: (fault) => this.faults.push(fault),
    });
    await clock.settle();
  }

  /** Starts an execution of these phases (or a whole definition); its input is null unless given. */
  async start(id: string, phases: unknown, input: unknown = null): Promise<void> {
    const definition = Array.isArray(phases) ? { name: "w", phases } : phases;
    const plan = compilePlan(unwrap(parseDefinition(definition)));
    await this.store.putDefinition(plan.definition.name, plan.hash, JSON.stringify(plan.definition));
    const message = {
      kind: "start" as const,
      execution: id,
      workflow: plan.definition.name,
      hash: plan.hash,
      project: "default",
      input: JSON.stringify(input),
      tags: {},
    };
    unwrap((await this.engine.send(id, message, { plan, fresh: false })).answer);
    await this.clock.settle();
  }

  async control(id: string, kind: ControlMessage["kind"]): Promise<void> {
    const message = { kind, id: `c${++this.#asked}`, by: "test", reason: null };
    unwrap((await this.engine.send(id, message)).answer);
    await this.clock.settle();
  }

  /** Registers a worker for these handlers. */
  join(worker: string, uses: readonly string[], capacity = 10): void {
    const handlers = uses.map((use) => ({ use }));
    unwrap(this.sessions.register({ name: "test", worker, handlers, capacity }, "127.0.0.1"));
  }

  /** What a claim gets at once. */
  async claim(worker: string, max = 10): Promise<Claimed> {
    const claimed = this.open(worker, max, 0);
    await this.clock.settle();
    const answer = unwrap(await claimed.answer) as Claimed;
    claimed.arrive();
    return answer;
  }

  /** A claim that waits. */
  open(worker: string, max: number, waitMs: number): OpenClaim {
    return new OpenClaim(this.sessions, worker, { max, waitMs });
  }

  /** Sends events; the answer comes after their commit. `more` goes into the body. */
  async send(worker: string, events: readonly Said[], more: object = {}): Promise<EventsAnswer | Rejection> {
    const tokens = Object.fromEntries(events.map(([{ attempt, token }]) => [attempt, token]));
    const list = events.map(([{ attempt }, n, body]) => ({ attempt, n, ...body }));
    const answer = this.sessions.events(worker, { tokens, events: list, ...more });
    await this.clock.settle();
    return answer;
  }

  /** The same, where it must be taken. */
  async tell(worker: string, ...events: readonly Said[]): Promise<EventsAnswer> {
    return unwrap(await this.send(worker, events));
  }

  async beat(worker: string, ...work: readonly WorkItem[]): Promise<HeartbeatAnswer> {
    const tokens = Object.fromEntries(work.map(({ attempt, token }) => [attempt, token]));
    const answer = this.sessions.heartbeat(worker, tokens);
    await this.clock.settle();
    return unwrap(answer);
  }

  async status(id: string): Promise<ExecutionView> {
    return unwrap(await this.engine.inspect(id)).view;
  }

  /** Events of a kind in the journal of an execution. */
  async events<K extends EventKind>(id: string, kind: K): Promise<Extract<Event, { kind: K }>[]> {
    const entries = await this.store.readJournal({ execution: id, from: 1 });
    return entries
      .flatMap((entry) => decodeEntry(entry))
      .map(({ event }) => event)
      .filter((event): event is Extract<Event, { kind: K }> => event.kind === kind);
  }

  /** What is logged, in the order of storing. */
  async logs(id: string): Promise<string[]> {
    const rows = await this.store.readLogs({ execution: id, after: 0, rowsMax: 1_000 });
    return rows.flatMap(({ lines }) => lines.map(({ text }) => text));
  }
}

/** A claim under way; `cut` is its client going away. */
export class OpenClaim {
  readonly answer: Promise<Claimed | Rejection | null>;
  isAnswered = false;
  /** Its answer was written; or it could not be. */
  arrive: () => void = () => {};
  handBack: () => void = () => {};
  readonly #abort = new AbortController();

  constructor(sessions: WorkerSessions, worker: string, asked: { max: number; waitMs: number }) {
    this.answer = this.#wait(sessions, worker, asked);
  }

  cut(): void {
    this.#abort.abort();
  }

  async #wait(
    sessions: WorkerSessions,
    worker: string,
    asked: { max: number; waitMs: number },
  ): Promise<Claimed | Rejection | null> {
    const claimed = await sessions.claim(worker, asked, this.#abort.signal);
    this.isAnswered = true;
    if (claimed === null || isRejection(claimed)) return claimed;
    this.arrive = () => claimed.ended(true);
    this.handBack = () => claimed.ended(false);
    return JSON.parse(claimed.text) as Claimed;
  }
}

/** A phase with one handler of tasks that are written down. */
export function tasksPhase(name: string, tasks: readonly unknown[], more: object = {}): unknown {
  return { name, handlers: { [name]: { use: `w.${name}`, tasks, ...more } } };
}

export const DONE: WireEventBody = { kind: "receipt", status: "done", result: "ok" };
export const STARTED: WireEventBody = { kind: "started" };
export const FAILED: WireEventBody = {
  kind: "receipt",
  status: "failed",
  error: { name: "Error", message: "boom" },
};
