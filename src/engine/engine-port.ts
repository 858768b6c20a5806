/**
 * An engine as the rest of the process uses it: the API, handles, worker sessions, schedules. One over a store of its
 * own is an `Engine`; in a cluster it is a `ClusterEngine`, which asks the node that has the execution.
 */

import type { Plan } from "../kernel/definition/plan.ts";
import type { StartMessage, Verdict } from "../kernel/message.ts";
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

export type { Request } from "./io.ts";

/** What a start brings: its plan, and whether nobody can have used its id before. */
export interface StartOf {
  readonly plan: Plan;
  readonly fresh: boolean;
  /** The answer is to come with how the execution is then, where that costs nothing. */
  readonly views?: boolean;
}

export interface EnginePort {
  readonly info: StoreInfo;
  /** It does nothing any more: it was closed, or it could not go on. */
  readonly hasStopped: boolean;
  /** Of this node: attempts that are open, and executions in memory. */
  readonly openLeases: number;
  readonly residentCount: number;

  /** Sends a message to an execution and resolves with its answer once that is committed. */
  send(execution: string, message: Request, start?: StartOf): Promise<Reply>;
  /**
   * How an execution is, from committed state. With an attempt, also how that is: asking for it is a sign of life, so an
   * attempt of a former owner is adopted by it.
   */
  inspect(execution: string, attempt?: ReportedAttempt): Promise<Inspection | Rejection>;
  /** Messages that were dropped as duplicates or stale, newest last. */
  dropped(execution: string): readonly Dropped[] | Promise<readonly Dropped[]>;
  /** Whether executions of this id are this node's: for ids that can be chosen. */
  isOwn(execution: string): boolean;
  /** The epoch in which this node has the execution's partition; null: it does not. */
  epochOf(execution: string): number | null;
  /** Whether an execution is in the memory of this node, or on its way there. */
  isResident(execution: string): boolean;
  /** Who holds an attempt of this node; null: nobody, or it is not in memory. */
  holderOf(at: ReportedAttempt): AttemptHolder | null;
  /** Whether an attempt is at a task that code must not get which enumerates, as far as is known in memory. */
  needsSingleCode(at: ReportedAttempt): boolean;
  /** What keeps the store from writing; null: nothing. */
  readonly commitFault: Error | null;

  /** Calls `progress` after every commit of the execution; the returned function stops that. */
  watch(execution: string, progress: Progress): () => void;
  /** Calls `logged` after every commit with log lines of the execution; the returned function stops that. */
  watchLogs(execution: string, logged: () => void): () => void;

  /** Connects a worker to this node. */
  join(worker: string, link: WorkerLink, options: JoinOptions): void;
  /** A remote worker asks for up to so many items; the newest word counts, 0 takes it back, perhaps for a reason. */
  claim(worker: string, max: number, why?: string): void;
  /** Delivers a worker's reports; resolves with verdicts, in their order, once they are committed. */
  report(worker: string, reports: readonly Report[]): Promise<readonly (readonly Verdict[])[]>;
  /** A remote worker's attempts are alive. */
  beat(worker: string, beats: readonly Beat[]): void;
  /** A worker gives claims back that nobody has begun: nothing is burnt, and nothing is journaled. */
  release(worker: string, beats: readonly Beat[]): void;
  /** A worker that queues commands has got these to the broker, which has confirmed them. */
  sent(worker: string, beats: readonly Beat[]): void;
  /** A worker is gone. */
  leave(worker: string): void;

  /** Forgets executions of this node that have ended and are not in use. */
  purge(ids: readonly string[]): void;
  /** A definition was stored: executions that wait for a workflow of this name go on. */
  definitionStored(workflow: string): void;

  /** Tokens are bound to these projects from now on: they may use only some topics (kernel/command/topic-rules.ts). */
  bindProjects(projects: ReadonlySet<string>): void;

  /** Code and topics that workers of this node serve which do not queue. */
  usesServed(): ReadonlySet<string>;
  /** What this node holds now. */
  overview(): Overview;
  /** Attempts of this node whose leases are open, of one worker or of all. */
  openAttempts(options: AttemptFilter): readonly OpenAttempt[];

  /** For whoever publishes events of this node. */
  readonly outbox: OutboxPort;

  /** Stops giving out work. */
  quiesce(): void;
  /** Waits for what is under way, then releases the store. */
  close(): Promise<void>;
}

/** A node with a tenth of the partitions finds an own id within so many all but once in a thousand times. */
const TRIES_MAX = 64;

/** An id for a fresh execution, one of this node's if it has any: then its start needs nobody else. */
export function newOwnId(engine: Pick<EnginePort, "isOwn">, now: number, random: Random): string {
  let id = newExecutionId(now, random);
  for (let tries = 1; tries < TRIES_MAX && !engine.isOwn(id); tries++) id = newExecutionId(now, random);
  return id;
}

/** How an execution is started: its checked options, and the W3C trace context of the request. */
export interface StartOptions {
  readonly id?: string | undefined;
  readonly project: string;
  readonly tags: Readonly<Record<string, string>>;
  readonly startAt?: number | undefined;
  readonly deadline?: number | undefined;
  readonly trace?: string | null;
}

/** A start on its way: the id is known before it is sent. */
export interface PreparedStart {
  readonly id: string;
  send(options?: { readonly views?: boolean }): ReturnType<EnginePort["send"]>;
}

/**
 * Starts an execution by its plan and its input as JSON text. Every start goes through here: of Rondo in this process, of
 * the API, of schedules and of submitted commands.
 */
export function startExecution(
  { engine, clock, random }: { engine: EnginePort; clock: Pick<Clock, "now">; random: Random },
  plan: Plan,
  input: string,
  options: StartOptions,
): PreparedStart {
  const { project, tags, startAt, deadline, trace = null } = options;
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
  const isPlain = startAt === undefined && deadline === undefined && trace === null;
  const message = isPlain
    ? plain
    : { ...plain, ...defined({ startAt, deadline, trace: trace ?? undefined }) };
  const fresh = options.id === undefined;
  return { id, send: (more = {}) => engine.send(id, message, { plan, fresh, ...more }) };
}
