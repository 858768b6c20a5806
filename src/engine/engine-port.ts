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

/** The plan of the workflow to start, and whether the id is certainly new. */
export interface StartOf {
  readonly plan: Plan;
  readonly fresh: boolean;
  /** Whether the reply includes the view of the execution, if it is available without more work. */
  readonly views?: boolean;
}

export interface EnginePort {
  readonly info: StoreInfo;
  readonly hasStopped: boolean;
  /** The number of open attempts at this node, and then the number of executions in its memory. */
  readonly openLeases: number;
  readonly residentCount: number;
  /** The highest version of events that every node of the cluster can read. */
  readonly reads: number;

  /** Sends a message to an execution. Resolves with the answer after the commit. */
  send(execution: string, message: Request, start?: StartOf): Promise<Reply>;
  /**
   * Returns the committed state of an execution. If an attempt is given, its state is returned too, and the call counts as its
   * heartbeat.
   */
  inspect(execution: string, attempt?: ReportedAttempt): Promise<Inspection | Rejection>;
  /** Returns the messages to an execution that were dropped as duplicates or stale, newest last. */
  dropped(execution: string): readonly Dropped[] | Promise<readonly Dropped[]>;
  /** Whether this node owns the partition of this id. New ids are chosen by this. */
  isOwn(execution: string): boolean;
  /** The epoch in which this node owns the execution's partition; null if it does not. */
  epochOf(execution: string): number | null;
  /** Whether an execution is in the memory of this node, or being loaded. */
  isResident(execution: string): boolean;
  /** Whether the execution is in the memory of this node and has not ended. Then watchers will be notified of its end. */
  isOpen(execution: string): boolean;
  /** Returns the worker that holds an attempt at this node; null if no worker does, or the execution is not in memory. */
  holderOf(at: ReportedAttempt): AttemptHolder | null;
  /** Whether the attempt's task must not go to code that enumerates, as far as memory shows. */
  needsSingleCode(at: ReportedAttempt): boolean;
  /** Why the store accepts no writes; null if it accepts them. */
  readonly commitFault: Error | null;

  /** Calls `progress` after every commit of the execution. Returns a function that stops the calls. */
  watch(execution: string, progress: Progress): () => void;
  /** Calls `logged` after every commit with log lines of the execution. Returns a function that stops the calls. */
  watchLogs(execution: string, logged: () => void): () => void;

  join(worker: string, link: WorkerLink, options: JoinOptions): void;
  /**
   * Requests up to `max` items for a remote worker. Each call replaces the worker's last request. 0 withdraws the request, with the
   * reason `why`.
   */
  claim(worker: string, max: number, why?: string): void;
  /** Delivers a worker's reports. After the commit, resolves with the verdicts in the order of the reports. */
  report(worker: string, reports: readonly Report[]): Promise<readonly (readonly Verdict[])[]>;
  beat(worker: string, beats: readonly Beat[]): void;
  /** Returns claims of a worker whose attempts have not begun. These attempts are neither counted nor journaled. */
  release(worker: string, beats: readonly Beat[]): void;
  /** Tells the engine that the broker has confirmed these commands of a worker that forwards to queues. */
  sent(worker: string, beats: readonly Beat[]): void;
  leave(worker: string): void;

  purge(ids: readonly string[]): void;
  /** Tells the engine that mail was stored other than by its own commits, so that it scans the mailbox. */
  mailStored(): void;
  /** Tells the engine that a definition was stored, so that executions that wait for a workflow of this name continue. */
  definitionStored(workflow: string): void;

  /** Sets the projects to which tokens are bound. Such projects may use only some topics (kernel/command/topic-rules.ts). */
  bindProjects(projects: ReadonlySet<string>): void;

  /**
   * Replaces the set of paused queues. The map has, for the name of each code, who paused its queue and why. Tasks of these queues
   * are not given out; running attempts go on.
   */
  pauseQueues(paused: ReadonlyMap<string, string>): void;

  /** Returns the code and topics that workers of this node serve. Workers that forward to queues are left out. */
  usesServed(): ReadonlySet<string>;
  overview(): Overview;
  /** Returns the figures of workflows since the last call, and clears them. */
  takeFigures(): readonly HourFigures[];
  openAttempts(options: AttemptFilter): readonly OpenAttempt[];

  /** The events of this node that the publisher has to publish. */
  readonly outbox: OutboxPort;

  quiesce(): void;
  /** Waits for open work, then releases the store. */
  close(): Promise<void>;
}

/**
 * How many random ids are tried. A node that owns a tenth of the partitions finds an id of its own in all but one of a thousand
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

/** The checked options of a start request, and the W3C trace context of that request. */
export interface StartOptions {
  readonly id?: string | undefined;
  readonly project: string;
  readonly tags: Readonly<Record<string, string>>;
  readonly startAt?: number | undefined;
  readonly deadline?: number | undefined;
  readonly trace?: string | null;
  /** A signal that the new execution gets at its start. If the execution exists already, it gets the signal instead of a start. */
  readonly signal?: SignalMessage;
  /** The messages that an event sends to the executions that it concerns. */
  readonly relays?: StartMessage["relays"];
  /** The number of this execution among the executions that continue one another under the same id; undefined for the first one. */
  readonly succession?: StartMessage["succession"];
}

/** The parts of the process that a start needs. */
export interface StartParts {
  readonly engine: EnginePort;
  readonly clock: Pick<Clock, "now">;
  readonly random: Random;
}

/** A start request that has its id but is not sent yet. */
export interface PreparedStart {
  readonly id: string;
  send(options?: { readonly views?: boolean }): ReturnType<EnginePort["send"]>;
}

/**
 * Prepares a start: chooses the id and makes the message, which `send` sends. All starts that a caller requests use this function. Children,
 * gates and triggers make their start messages themselves.
 */
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
  const isPlain =
    startAt === undefined &&
    deadline === undefined &&
    trace === null &&
    signal === undefined &&
    relays === undefined &&
    succession === undefined;
  const message = isPlain
    ? plain
    : { ...plain, ...defined({ startAt, deadline, trace: trace ?? undefined, signal, relays, succession }) };
  const fresh = options.id === undefined;
  return { id, send: (more = {}) => engine.send(id, message, { plan, fresh, ...more }) };
}
