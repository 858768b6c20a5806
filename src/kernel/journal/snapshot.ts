/**
 * Snapshots: the state of an execution as text. A snapshot is only a cache of what the journal says. `FOLD_VERSION` is raised
 * whenever the fold computes a different state; snapshots of another version are ignored.
 */
import type { Json } from "../../std/json.ts";
import { unwrap } from "../../std/rejection.ts";
import { planOfText } from "../apply-moved.ts";
import type { OwedOp } from "../command/owed-op.ts";
import type { HandlerPlan, PhasePlan, Plan } from "../definition/plan.ts";
import {
  type ChildState,
  type CommandState,
  Execution,
  type FormerEnd,
  HandlerState,
  type Receipted,
  type Signal,
  type TaskChild,
  type Timer,
  type Undelivered,
  Visit,
  type VisitSummary,
} from "../execution.ts";
import type { RetriedTasks } from "../message.ts";
import { type ProgressSnapshot, ProgressTable } from "../tasks/checkpoint.ts";
import { Dependencies, type DependenciesSnapshot } from "../tasks/dependencies.ts";
import { IdentitySet } from "../tasks/identity-set.ts";
import type { Notices } from "../tasks/run-notices.ts";
import { TaskTable, type TaskTableSnapshot } from "../tasks/task-table.ts";

export const FOLD_VERSION = 14;

/** The fields of an execution that a snapshot contains unchanged. */
const PLAIN = [
  "seq",
  "now",
  "project",
  "input",
  "tags",
  "parent",
  "trace",
  "createdAt",
  "startAt",
  "deadline",
  "finishedAt",
  "status",
  "output",
  "error",
  "round",
  "due",
  "dueRepair",
  "visited",
  "signalCount",
  "signalBytes",
  "paused",
  "cancelling",
  "ending",
  "gate",
  "carriedAt",
  "notifies",
  "succession",
  // @plant snapshot forgets that the code continues
  "continuing",
  // @plant snapshot forgets a cancel of the next one
  "nextCancelled",
  "continuedAs",
  // @plant snapshot forgets the newest execution
  "newest",
  "newestEndedAt",
] as const satisfies readonly (keyof Execution)[];

interface HandlerSnapshot {
  readonly name: string;
  readonly finished: boolean;
  readonly sealed: boolean;
  readonly total: number;
  readonly cancelled: number;
  readonly value: string | null;
  readonly lastError: string | null;
  readonly tasks: TaskTableSnapshot;
  readonly enumeration: HandlerState["enumeration"];
  readonly identities: string | null;
  /** The tasks by their identities, and the dependencies between tasks; missing if tasks cannot wait for others. */
  readonly identityTasks?: string;
  readonly dependencies?: DependenciesSnapshot;
  readonly pageFrom: readonly number[];
  readonly pageSeq: readonly number[];
  readonly progress: ProgressSnapshot;
  readonly notices: readonly (readonly [number, Notices])[];
  readonly children: readonly (readonly [number, ChildState])[];
  readonly taskChildren?: readonly (readonly [string, TaskChild])[];
  readonly receipted: readonly (readonly [number, Receipted])[];
}

interface VisitSnapshot {
  readonly phase: string;
  readonly visit: number;
  readonly round: number;
  readonly repair: boolean;
  readonly failing: Visit["failing"];
  readonly status: Visit["status"];
  readonly answer: string | null;
  readonly isRetried?: true;
  readonly isChosenRound?: true;
  readonly firstSeq: number;
  readonly lastSeq: number;
  readonly handlers: readonly HandlerSnapshot[];
}

interface FormerEndSnapshot extends Omit<FormerEnd, "back"> {
  readonly back: { visit: VisitSnapshot | null; due: number; dueRepair: boolean } | null;
}

interface ExecutionSnapshot {
  readonly plain: Record<string, unknown>;
  /** The definition to which the execution was moved, as JSON text; missing if it was not moved. */
  readonly moved?: string;
  readonly formerEnd?: FormerEndSnapshot;
  readonly current: VisitSnapshot | null;
  readonly origin: VisitSnapshot | null;
  readonly kept: readonly VisitSnapshot[];
  readonly visitCounts: readonly (readonly [string, number])[];
  readonly signals: readonly (readonly [string, readonly Signal[]])[];
  readonly unanswered?: readonly (readonly [string, string])[];
  readonly published?: readonly (readonly [string, Json])[];
  readonly timers: readonly (readonly [string, Timer])[];
  readonly applied: readonly (readonly [string, number])[];
  readonly retriedTasks: readonly (readonly [string, RetriedTasks])[];
  readonly postops: readonly OwedOp[];
  readonly undelivered: readonly (readonly [string, Undelivered])[];
  readonly commands: readonly (readonly [number, CommandState])[];
  readonly referred: readonly (readonly [string, string])[];
}

/** Returns the text that the checksum of a stored snapshot covers besides the snapshot (std/seal.ts). */
export function snapshotKey(execution: string, seq: number): string {
  return `${execution}\n${seq}`;
}

/** Writes an execution as the text of a snapshot. */
export function writeSnapshot(execution: Execution): string {
  const snapshot: ExecutionSnapshot = {
    plain: Object.fromEntries(PLAIN.map((field) => [field, execution[field]])),
    // @plant snapshot forgets a move
    ...(execution.moved === null ? {} : { moved: execution.moved }),
    // @plant snapshot forgets the former end
    ...(execution.formerEnd === null ? {} : { formerEnd: writeFormerEnd(execution.formerEnd) }),
    current: execution.current === null ? null : writeVisit(execution.current),
    origin: execution.origin === null ? null : writeVisit(execution.origin),
    // @plant snapshot forgets visits to compensate
    kept: execution.kept.map(writeVisit),
    visitCounts: [...execution.visitCounts],
    // @plant snapshot forgets kept signals
    signals: [...execution.signals],
    // @plant snapshot forgets unanswered updates
    ...(execution.unanswered.size === 0 ? {} : { unanswered: [...execution.unanswered] }),
    // @plant snapshot forgets published values
    ...(execution.published.size === 0 ? {} : { published: [...execution.published] }),
    timers: [...execution.timers],
    applied: [...execution.applied],
    retriedTasks: [...execution.retriedTasks],
    // @plant snapshot forgets owed post-operations
    postops: [...execution.postops.values()],
    undelivered: [...execution.undelivered],
    commands: [...execution.commands],
    referred: [...execution.referred],
  };
  return JSON.stringify(snapshot);
}

/** Restores an execution from the text of a snapshot. `created` is the plan of the definition with which the execution was created. */
export function readSnapshot(id: string, created: Plan, text: string): Execution {
  const snapshot = JSON.parse(text) as ExecutionSnapshot;
  const execution = new Execution(id, created);
  if (snapshot.moved !== undefined) {
    execution.moved = snapshot.moved;
    execution.plan = unwrap(planOfText(snapshot.moved));
  }
  const { plan } = execution;
  Object.assign(execution, snapshot.plain);
  execution.visited = snapshot.plain["visited"] as VisitSummary[];
  execution.current = snapshot.current === null ? null : readVisit(plan, snapshot.current);
  execution.origin = snapshot.origin === null ? null : readVisit(plan, snapshot.origin);
  execution.kept = snapshot.kept.map((visit) => readVisit(plan, visit));
  if (snapshot.formerEnd !== undefined) execution.formerEnd = readFormerEnd(execution, snapshot.formerEnd);
  for (const [name, count] of snapshot.visitCounts) execution.visitCounts.set(name, count);
  for (const [name, queue] of snapshot.signals) execution.signals.set(name, [...queue]);
  for (const [id, name] of snapshot.unanswered ?? []) execution.unanswered.set(id, name);
  for (const [key, value] of snapshot.published ?? []) execution.published.set(key, value);
  for (const [id, timer] of snapshot.timers) execution.timers.set(id, timer);
  for (const [id, seq] of snapshot.applied) execution.applied.set(id, seq);
  for (const [id, answer] of snapshot.retriedTasks) execution.retriedTasks.set(id, answer);
  for (const op of snapshot.postops) execution.postops.set(op.id, op);
  for (const [id, failed] of snapshot.undelivered) execution.undelivered.set(id, failed);
  for (const [step, state] of snapshot.commands) execution.commands.set(step, state);
  for (const [reference, value] of snapshot.referred) execution.referred.set(reference, value);
  return execution;
}

function writeFormerEnd({ back, ...end }: FormerEnd): FormerEndSnapshot {
  if (back === null) return { ...end, back };
  return { ...end, back: { ...back, visit: back.visit === null ? null : writeVisit(back.visit) } };
}

function readFormerEnd({ plan, current }: Execution, { back, ...end }: FormerEndSnapshot): FormerEnd {
  if (back === null) return { ...end, back };
  if (back.visit === null) return { ...end, back: { ...back, visit: null } };
  // The visit to which the execution goes back may be the current one, if a round of chosen tasks runs in it. Then both must be the
  // same object.
  const isCurrent = back.visit.phase === current?.plan.name && back.visit.visit === current.visit;
  return { ...end, back: { ...back, visit: isCurrent ? current : readVisit(plan, back.visit) } };
}

function writeVisit(visit: Visit): VisitSnapshot {
  return {
    phase: visit.plan.name,
    visit: visit.visit,
    round: visit.round,
    repair: visit.repair,
    failing: visit.failing,
    status: visit.status,
    answer: visit.answer,
    ...(visit.isRetried ? { isRetried: true } : {}),
    ...(visit.isChosenRound ? { isChosenRound: true } : {}),
    firstSeq: visit.firstSeq,
    lastSeq: visit.lastSeq,
    handlers: visit.handlers.map((handler) => ({
      name: handler.plan.name,
      finished: handler.finished,
      sealed: handler.sealed,
      total: handler.total,
      cancelled: handler.cancelled,
      value: handler.value,
      lastError: handler.lastError,
      tasks: handler.tasks.toSnapshot(),
      enumeration: handler.enumeration,
      identities: handler.identities?.toText() ?? null,
      ...(handler.dependencies === null
        ? {}
        : {
            identityTasks: handler.identities?.tasksToText() ?? "",
            // @plant snapshot forgets which tasks wait for others
            dependencies: handler.dependencies.toSnapshot(),
          }),
      pageFrom: handler.pageFrom,
      pageSeq: handler.pageSeq,
      progress: handler.progress.toSnapshot(),
      notices: [...handler.notices],
      children: [...handler.children],
      // @plant snapshot forgets children of code
      ...(handler.taskChildren.size === 0 ? {} : { taskChildren: [...handler.taskChildren] }),
      receipted: [...handler.receipted],
    })),
  };
}

function readVisit(plan: Plan, data: VisitSnapshot): Visit {
  const phase = plan.byName.get(data.phase) as PhasePlan;
  const visit = new Visit(phase, data);
  visit.failing = data.failing;
  visit.status = data.status;
  visit.answer = data.answer;
  visit.isRetried = data.isRetried === true;
  visit.isChosenRound = data.isChosenRound === true;
  visit.lastSeq = data.lastSeq;
  visit.handlers = data.handlers.map((saved) => {
    const handlerPlan = [...phase.handlers, ...(phase.decision ? [phase.decision] : [])].find(
      (candidate) => candidate.name === saved.name,
    ) as HandlerPlan;
    const handler = new HandlerState(handlerPlan);
    handler.finished = saved.finished;
    handler.sealed = saved.sealed;
    handler.total = saved.total;
    handler.cancelled = saved.cancelled;
    handler.value = saved.value;
    handler.lastError = saved.lastError;
    handler.tasks = TaskTable.fromSnapshot(saved.tasks);
    handler.enumeration = { ...saved.enumeration };
    if (saved.identities !== null)
      handler.identities = IdentitySet.fromText(saved.identities, saved.identityTasks ?? null);
    if (saved.dependencies !== undefined)
      handler.dependencies = Dependencies.fromSnapshot(saved.dependencies, handler.tasks, saved.total);
    handler.pageFrom.push(...saved.pageFrom);
    handler.pageSeq.push(...saved.pageSeq);
    handler.progress = ProgressTable.fromSnapshot(saved.progress);
    for (const [task, notices] of saved.notices) handler.notices.set(task, notices);
    for (const [task, child] of saved.children) {
      handler.children.set(task, child);
      if (child.isOpen) handler.openChildren++;
    }
    for (const [key, child] of saved.taskChildren ?? []) {
      handler.taskChildren.set(key, child);
      if (child.isOpen) handler.openTaskChildren++;
    }
    for (const [task, receipted] of saved.receipted) handler.receipted.set(task, receipted);
    return handler;
  });
  return visit;
}
