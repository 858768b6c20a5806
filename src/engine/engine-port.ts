/**
 * The engine in the form in which the rest of the process uses it: an `Engine` for a single node, a `ClusterEngine` for a
 * cluster.
 */
import type { Plan } from "../kernel/definition/plan.ts";
import type { SignalMessage, StartMessage, Verdict } from "../kernel/message.ts";
import type { Beat, Report, ReportedAttempt } from "../protocol/work.ts";
import type { Clock } from "../std/clock.ts";
import { defined } from "../std/defined.ts";
import { newExecutionId } from "../std/id.ts";
import type { Random } from "../std/random.ts";
import type { Rejection } from "../std/rejection.ts";
import type { StoreInfo } from "../store/store.ts";
import type { Progress, Reply, WorkerLink } from "./driver-options.ts";
import type {
  AttemptFilter,
  Dropped,
  Inspection,
  JoinOptions,
  OpenAttempt,
  Overview,
  Request,
} from "./io.ts";
import type { AttemptHolder } from "./leases/attempt-facts.ts";
import type { OutboxPort } from "./mailbox/outbox.ts";
import type { HourFigures } from "./views/figures.ts";

export type { Request } from "./io.ts";

/** The plan of a start, and whether its id is certainly new. */
export interface StartOf {
  readonly plan: Plan;
  readonly fresh: boolean;
  /** Whether to return the view with the answer, if that costs nothing. */
  readonly views?: boolean;
}

export interface EnginePort {
  readonly info: StoreInfo;
  readonly hasStopped: boolean;
  /** The number of open attempts of this node, and of executions in its memory. */
  readonly openLeases: number;
  readonly residentCount: number;

  /** Sends a message to an execution. Resolves with the answer after the commit. */
  send(execution: string, message: Request, start?: StartOf): Promise<Reply>;
  /** Returns the committed state of an execution. With an attempt, also its state; the call then counts as its heartbeat. */
  inspect(execution: string, attempt?: ReportedAttempt): Promise<Inspection | Rejection>;
  /** Messages that were dropped as duplicates or stale, newest last. */
  dropped(execution: string): readonly Dropped[] | Promise<readonly Dropped[]>;
  /** Whether this node owns executions with this id; used to choose ids. */
  isOwn(execution: string): boolean;
  /** The epoch in which this node owns the execution's partition; null if it does not. */
  epochOf(execution: string): number | null;
  /** Whether an execution is in the memory of this node, or being loaded. */
  isResident(execution: string): boolean;
  /** Whether the execution is in the memory of this node and has not ended, so that watchers will be notified of its end. */
  isOpen(execution: string): boolean;
  /** The worker that holds an attempt of this node; null if none does, or the execution is not in memory. */
  holderOf(at: ReportedAttempt): AttemptHolder | null;
  /** Whether code that enumerates must not get the attempt's task, as far as is known in memory. */
  needsSingleCode(at: ReportedAttempt): boolean;
  /** Why the store accepts no writes; null if it accepts them. */
  readonly commitFault: Error | null;

  /** Calls `progress` after every commit of the execution. Returns a function that stops the calls. */
  watch(execution: string, progress: Progress): () => void;
  /** Calls `logged` after every commit with log lines of the execution. Returns a function that stops the calls. */
  watchLogs(execution: string, logged: () => void): () => void;

  join(worker: string, link: WorkerLink, options: JoinOptions): void;
  /** Requests up to `max` items for a remote worker. Its last request counts; 0 withdraws it, perhaps with a reason. */
  claim(worker: string, max: number, why?: string): void;
  /** Delivers a worker's reports. Resolves with verdicts, in their order, after the commit. */
  report(worker: string, reports: readonly Report[]): Promise<readonly (readonly Verdict[])[]>;
  beat(worker: string, beats: readonly Beat[]): void;
  /** Returns claims of a worker that were not begun. No attempt is counted, and nothing is journaled. */
  release(worker: string, beats: readonly Beat[]): void;
  /** Tells the engine that the broker has confirmed these commands of a queueing worker. */
  sent(worker: string, beats: readonly Beat[]): void;
  leave(worker: string): void;

  purge(ids: readonly string[]): void;
  /** Tells the engine that mail was stored by another way than its own commits. It scans the mailbox. */
  mailStored(): void;
  /** Tells the engine that a definition was stored: executions that wait for a workflow of this name continue. */
  definitionStored(workflow: string): void;

  /** Sets the projects that tokens are bound to: they may use only some topics (kernel/command/topic-rules.ts). */
  bindProjects(projects: ReadonlySet<string>): void;

  /**
   * Replaces the paused queues: by the name of their code, who paused each and why. Their tasks are not given out; running
   * attempts go on.
   */
  pauseQueues(paused: ReadonlyMap<string, string>): void;

  /** Code and topics that workers of this node serve, without queueing workers. */
  usesServed(): ReadonlySet<string>;
  overview(): Overview;
  /** Takes the figures of workflows since the last call. */
  takeFigures(): readonly HourFigures[];
  openAttempts(options: AttemptFilter): readonly OpenAttempt[];

  /** The interface for the publisher of this node's events. */
  readonly outbox: OutboxPort;

  quiesce(): void;
  /** Waits for open work, then releases the store. */
  close(): Promise<void>;
}

/**
 * How many ids are tried. A node with a tenth of the partitions finds an id in its own partitions in all but one of a thousand
 * cases.
 */
const TRIES_MAX = 64;

/**
 * Makes an id for a new execution. If possible it belongs to this node's partitions, so that the start needs no other node.
 */
export function newOwnId(engine: Pick<EnginePort, "isOwn">, now: number, random: Random): string {
  let id = newExecutionId(now, random);
  for (let tries = 1; tries < TRIES_MAX && !engine.isOwn(id); tries++) id = newExecutionId(now, random);
  return id;
}

/** Checked options of a start, and the W3C trace context of the request. */
export interface StartOptions {
  readonly id?: string | undefined;
  readonly project: string;
  readonly tags: Readonly<Record<string, string>>;
  readonly startAt?: number | undefined;
  readonly deadline?: number | undefined;
  readonly trace?: string | null;
  /** The signal with which the execution starts, or that an existing execution gets. */
  readonly signal?: SignalMessage;
  /** The messages of an event. */
  readonly relays?: StartMessage["relays"];
  /** The place of the execution among those of its id; undefined for the first one. */
  readonly succession?: StartMessage["succession"];
}

/** The parts of the process that a start needs. */
export interface StartParts {
  readonly engine: EnginePort;
  readonly clock: Pick<Clock, "now">;
  readonly random: Random;
}

/** A start with its id, before it is sent. */
export interface PreparedStart {
  readonly id: string;
  send(options?: { readonly views?: boolean }): ReturnType<EnginePort["send"]>;
}

/** Starts an execution by its plan and its input as JSON text. Every start of this process goes through here. */
export function startExecution(
  { engine, clock, random }: StartParts,
  plan: Plan,
  input: string,
  options: StartOptions,
): PreparedStart {
  const { project, tags, startAt, deadline, trace = null, signal, relays, succession } = options;
  const id = options.id ?? newOwnId(engine, clock.now(), random);
  const plain: StartMessage = {
    kind: "start",
    execution: id,
    workflow: plan.definition.name,
    hash: plan.hash,
    project,
    input,
    tags,
  };
  const isPlain = [startAt, deadline, trace ?? undefined, signal, relays, succession].every(
    (one) => one === undefined,
  );
  const message = isPlain
    ? plain
    : { ...plain, ...defined({ startAt, deadline, trace: trace ?? undefined, signal, relays, succession }) };
  const fresh = options.id === undefined;
  return { id, send: (more = {}) => engine.send(id, message, { plan, fresh, ...more }) };
}
