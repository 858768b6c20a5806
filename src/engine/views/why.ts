/** Explains in one sentence why an execution waits, and names what it waits for. The sentence is computed on request. */
import { leftCleanup } from "../../kernel/cleanup.ts";
import { postOpPlan, targetOf } from "../../kernel/command/command-plan.ts";
import { commandAt, type OwedOp } from "../../kernel/command/owed-op.ts";
import { topicOf } from "../../kernel/command/topic-rules.ts";
import type { RateDefinition } from "../../kernel/definition/definition.ts";
import { SCRIPT_USE, type Wanted } from "../../kernel/definition/plan.ts";
import type { Execution, HandlerState } from "../../kernel/execution.ts";
import { NEVER } from "../../kernel/tasks/task-table.ts";
import { unreadSignals } from "../../kernel/unread.ts";
import { isUpdate, shownSignal } from "../../kernel/updates.ts";
import { showDuration } from "../../std/duration.ts";
import type { Slot } from "../cache/slot.ts";
import type { HandlerQueue } from "../dispatch/handler-queue.ts";
import { ENUMERATION } from "../leases/lease.ts";
import { projectScope, rateName } from "../limits/limits.ts";
import type { NodeState } from "../node-state.ts";

/** The kinds of waiting of an execution that has not ended: `running` if an attempt runs, else the first reason that a handler has. */
export const WAITS = [
  "running",
  "worker",
  "queue",
  "limit",
  "signal",
  "sleep",
  "retry",
  "child",
  "receipt",
  "start",
  "drain",
  "restart",
  "upgrade",
] as const;
export type Waits = (typeof WAITS)[number];

/** Why an execution waits: the kind, and a sentence. */
interface Reason {
  readonly waits: Waits;
  readonly text: string;
}

/** The most names of unread or awaited signals that a sentence shows. */
const UNREAD_SHOWN = 5;
/** The most names of awaited signals in an inspection. */
const SIGNALS_MAX = 50;

/**
 * Explains an execution. Returns the sentence, the kind of waiting (null if it has ended or is paused), and the signals that it waits
 * for.
 */
export function whyWaiting(
  node: NodeState,
  slot: Slot,
  execution: Execution,
): { readonly why: string; readonly waits: Waits | null; readonly signals: readonly string[] } {
  const unread = whyUnread(execution);
  const { waits, text } = whyNow(node, slot, execution);
  return {
    why: unread === null ? text : `${text} ${unread}`,
    waits,
    signals: execution.ended ? [] : awaitedSignals(slot),
  };
}

/** Returns the names of the signals for which open handlers and tasks wait, each once. */
function awaitedSignals({ queues }: Slot): readonly string[] {
  const names = new Set<string>();
  for (const { state } of queues) {
    if (state.finished) continue;
    const { mode, definition } = state.plan;
    if (mode === "waitFor" && definition.waitFor !== undefined) names.add(definition.waitFor);
    for (const name of state.progress.signals)
      if (names.size < SIGNALS_MAX && !isUpdate(name)) names.add(name);
  }
  return [...names];
}

/** Returns a sentence about signals that no wait has taken; null if there are none. */
function whyUnread(execution: Execution): string | null {
  const unread = unreadSignals(execution);
  if (unread.length === 0) return null;
  const shown = unread.slice(0, UNREAD_SHOWN).map(({ signal, count, update }) => {
    const what = update === true ? "update" : "signal";
    return `${count} ${what}${count === 1 ? "" : "s"} "${signal}"`;
  });
  const more = unread.length - shown.length;
  if (more > 0) shown.push(`signals of ${more} more ${more === 1 ? "name" : "names"}`);
  return execution.ended
    ? `Nothing has read ${shown.join(", ")}.`
    : `It keeps ${shown.join(", ")}, which nothing has read.`;
}

function whyNow(
  node: NodeState,
  slot: Slot,
  execution: Execution,
): { readonly waits: Waits | null; readonly text: string } {
  if (execution.ended) {
    const owed = whyStillOwed(execution, node.now);
    const { continuedAs } = execution;
    const next = continuedAs === null ? "" : `, and continued as ${continuedAs}`;
    const end = `It is ${execution.status}${next}${execution.error ? `: ${execution.error.message}` : ""}${owed === null ? "" : `; ${owed}`}.`;
    const left = whyCleanupLeft(execution);
    return { waits: null, text: left === null ? end : `${end} ${left}` };
  }
  if (node.isHeldBack(slot))
    return because(
      "upgrade",
      `It waits for the end of an upgrade: its next events have version ${slot.needs}, and a node of the cluster reads only version ${node.writes}.`,
    );
  const working = whyWorking(node, slot, execution);
  if (execution.ending === null) return working;
  const { status } = execution.ending;
  const clean = status === "done" ? "It is done with its work" : `Its work has ended as ${status}`;
  return { ...working, text: `${clean}, and it cleans up. ${working.text}` };
}

function because(waits: Waits, text: string): Reason {
  return { waits, text };
}

/** Returns a sentence about the clean-up that an ended execution has not completed; null if all of it is done. */
function whyCleanupLeft(execution: Execution): string | null {
  const left = leftCleanup(execution);
  if (left.length === 0) return null;
  const parts = left.map(({ plan, visit }) => {
    const ended = execution.visited.find((one) => one.phase === plan.name && one.visit === visit);
    const count = (of: "failed" | "cancelled"): number =>
      ended?.handlers.reduce((sum, handler) => sum + handler[of], 0) ?? 0;
    const [failed, cancelled] = [count("failed"), count("cancelled")];
    const outcomes = [
      ...(cancelled > 0 ? [`${countTasks(cancelled)} of "${plan.name}" did not run`] : []),
      ...(failed > 0 ? [`${countTasks(failed)} of "${plan.name}" failed`] : []),
    ];
    return outcomes.length === 0 ? `"${plan.name}" did not run` : outcomes.join(", ");
  });
  return `Its clean-up is not complete: ${parts.join(", ")}. To run it: rondo retry ${execution.id}.`;
}

function countTasks(count: number): string {
  return `${count} ${count === 1 ? "task" : "tasks"}`;
}

/** Explains why the work or the clean-up of an execution that has not ended waits. */
function whyWorking(
  node: NodeState,
  slot: Slot,
  execution: Execution,
): { readonly waits: Waits | null; readonly text: string } {
  if (execution.status === "cancelling" && execution.ending !== null)
    return because(
      "drain",
      `${execution.cancelling?.by ?? "Someone"} ended the clean-up before its time: ${open(slot)} must still end.`,
    );
  if (execution.status === "cancelling")
    return because(
      "drain",
      `It is being cancelled by ${execution.cancelling?.by ?? "someone"}: ${open(slot)} must still end.`,
    );
  if (execution.paused !== null) {
    const { by, reason } = execution.paused;
    return {
      waits: null,
      text: `It is paused by ${by}${reason === null ? "" : ` (${reason})`}; resume it to go on.`,
    };
  }
  if (execution.startAt !== null)
    return because("start", `It starts in ${showDuration(execution.startAt - node.now)}.`);
  if (execution.draining)
    return because(
      "drain",
      `Phase "${execution.current?.plan.name}" is failing: ${open(slot)} must still end.`,
    );
  const reasons = slot.queues
    .map((queue) => whyHandler(node, execution, queue))
    .filter((reason) => reason !== null);
  const [first] = reasons;
  if (first === undefined) return because("running", "It is about to continue.");
  const isRunning = slot.leaseCount > 0 && reasons.some(({ waits }) => waits === "running");
  return because(isRunning ? "running" : first.waits, reasons.map(({ text }) => text).join(" "));
}

function whyHandler(node: NodeState, execution: Execution, queue: HandlerQueue): Reason | null {
  const reason = whyOpen(node, execution, queue);
  const blocked = reason === null ? null : whyBlocked(node, queue);
  return reason === null || blocked === null ? reason : because(reason.waits, `${reason.text} ${blocked}`);
}

/** Returns the number of open tasks that do not wait for other tasks. */
function unblocked({ total, tasks, dependencies }: HandlerState): number {
  return total - tasks.settled.size - (dependencies?.blocked.size ?? 0);
}

/** Returns why the tasks that depend on no open task wait; null if the handler has ended. */
function whyOpen(node: NodeState, execution: Execution, queue: HandlerQueue): Reason | null {
  const { state } = queue;
  const { plan } = state;
  if (state.finished) return null;
  const at = `"${queue.visit.plan.name}"${plan.name === queue.visit.plan.name ? "" : `/"${plan.name}"`}`;
  if (plan.waits) return whyTimer(node, execution, queue, at);
  if (plan.mode === "workflow") {
    const children = whyChildren(node, queue, at);
    if (children !== null) return children;
  }
  const isIdle = queue.openLeases === 0 && !queue.hasTasks(node.now);
  const doubtEnds = isIdle ? Math.max(queue.suspectUntil, queue.lostAt) : queue.suspectUntil;
  if (doubtEnds > node.now)
    return because(
      "restart",
      `${at} waits ${showDuration(doubtEnds - node.now)} for attempts that may still run since before the restart.`,
    );
  const wanted = queue.wantsEnumeration(node.now) ? plan.enumerator : plan.wanted;
  const running = queue.openLeases - (queue.leases.has(ENUMERATION) ? 1 : 0);
  const left = unblocked(state);
  const command = whyCommand(node, execution, { queue, at });
  if (command !== null) return because("receipt", command);
  const waiting = whyWaits(node, queue, at);
  if (running === 0 && waiting !== null) return waiting;
  const enumerator = running > 0 ? null : node.enumeratorAt({ execution }, queue);
  if (enumerator !== null) return because("worker", `${at} ${whySingle(wanted, enumerator)}`);
  if (
    queue.wantsEnumeration(node.now) &&
    !queue.leases.has(ENUMERATION) &&
    node.roster.isOnlyProcessed(wanted, execution.project)
  )
    return because(
      "worker",
      `${at} waits for a worker that enumerates "${wanted.use}": the connected ones only process it.`,
    );
  const pausedBy = node.roster.pausedBy(wanted.use);
  if (pausedBy !== undefined && running === 0)
    return because("queue", `${at} waits: the queue of "${wanted.use}" is paused ${pausedBy}.`);
  const needsWorker = plan.mode !== "workflow" || queue.wantsEnumeration(node.now);
  if (
    needsWorker &&
    running === 0 &&
    !queue.leases.has(ENUMERATION) &&
    !node.roster.isServed(wanted, execution.project)
  )
    return because(
      "worker",
      `${at} waits for a worker: none serves ${whoServes(node, wanted, execution.project)} now${lastLeft(node, wanted, execution.project)}${whyNoBroker(node)}.`,
    );
  const limited = whyLimited(node, execution, { queue, at, running, left });
  if (limited !== null) return limited;
  const queued = whyQueued(node, execution, queue);
  if (queued !== null) return because(running > 0 ? "running" : "worker", `${at} ${queued}`);
  if (running > 0)
    return because(
      "running",
      `${at} runs ${running} of ${state.total - state.tasks.settled.size} open tasks${state.sealed || state.impliesTask ? "" : "; its enumeration has not ended"}.`,
    );
  if (queue.hasAside || isHeldFor(node, queue))
    return because(
      "worker",
      `${at} waits for a worker without other tasks: a task has crashed its process twice and must run alone.`,
    );
  const retryAt = queue.nextDue(node.now);
  if (retryAt > node.now && retryAt < Number.POSITIVE_INFINITY && queue.waitsForTimeOnly(node.now))
    return because(
      "retry",
      `${at} tries again in ${showDuration(retryAt - node.now)}: ${left === 0 ? "its enumeration" : `${left} ${left === 1 ? "task" : "tasks"}`} failed before${state.lastError === null ? "" : ` (${state.lastError})`}.`,
    );
  if (queue.leases.has(ENUMERATION))
    return because(
      "running",
      `${at}: its enumeration is still running; ${state.total} ${state.total === 1 ? "task" : "tasks"} so far.`,
    );
  const next = whyNext(node, execution, queue);
  return because(next.waits, `${at} ${next.text}.`);
}

/** Returns the reason if a concurrency limit, a rate or the project's limit keeps tasks waiting; null if none does. */
function whyLimited(
  node: NodeState,
  execution: Execution,
  open: {
    readonly queue: HandlerQueue;
    readonly at: string;
    readonly running: number;
    readonly left: number;
  },
): Reason | null {
  const { queue, at, running, left } = open;
  const { plan } = queue.state;
  const scope = `${execution.project}/${plan.scope}`;
  const limit = node.limits.find(scope);
  const limited = running > 0 ? "running" : "limit";
  const blocked = node.limits.blockedUntil(scope) - node.now;
  if (blocked > 0 && left > running)
    return because(
      "restart",
      `${at} waits ${showDuration(blocked)} for attempts that may still hold "${plan.scope}" since before the restart.`,
    );
  if (
    plan.definition.rate !== undefined &&
    !node.limits.hasRoom(rateName(scope), node.now) &&
    left > running
  ) {
    // For a rate with starts on other nodes, only the quota server knows when the next start is allowed.
    const ms = node.limits.allowedAt(rateName(scope)) - node.now;
    return because(
      limited,
      `${at} runs ${running}; ${left - running} more wait ${ms > 0 ? `${showDuration(ms)} ` : ""}because of the ${showRate(plan.definition.rate)}.`,
    );
  }
  const ofProject = node.limits.find(projectScope(execution.project));
  if (ofProject !== null && ofProject.held >= ofProject.max && left > running)
    return because(
      limited,
      `${at} runs ${running}; ${left - running} more wait because the limit of the project "${execution.project}" is reached: ${ofProject.held} of ${ofProject.max} in use.`,
    );
  if (
    plan.definition.concurrency !== undefined &&
    limit !== null &&
    limit.held >= limit.max &&
    left > running
  ) {
    return because(
      limited,
      `${at} runs ${running}; ${left - running} more wait because the limit of "${plan.scope}" is reached: ${limit.held} of ${limit.max} in use.`,
    );
  }
  if (plan.definition.concurrency !== undefined && left > running && !node.limits.hasRoom(scope, node.now))
    return because(
      limited,
      `${at} runs ${running}; ${left - running} more wait for permits of "${plan.scope}", which other nodes hold or have not reported yet.`,
    );
  if (queue.parked > 0)
    return because(limited, `${at} runs ${running}; ${queue.parked} wait${whyParked(node, scope, queue)}.`);
  return null;
}

/** Describes the limit of the key at which most tasks are parked. */
function whyParked(node: NodeState, scope: string, queue: HandlerQueue): string {
  const { concurrencyPerKey, ratePerKey } = queue.state.plan.definition;
  const key = queue.fullestKey;
  const name = `${scope}#${key}`;
  const isRated = ratePerKey !== undefined && !node.limits.hasRoom(rateName(name), node.now);
  if (!isRated)
    return ` because the limit of the key "${key}" is reached: ${concurrencyPerKey} of ${concurrencyPerKey} in use`;
  const ms = node.limits.allowedAt(rateName(name)) - node.now;
  const wait =
    ms > 0 ? `: the next one of the key "${key}" waits ${showDuration(ms)}` : ` for the key "${key}"`;
  return `${wait} because of its ${showRate(ratePerKey)}`;
}

function showRate({ limit, per, spread }: RateDefinition): string {
  return `rate of ${limit} in ${showDuration(per)}${spread === true ? ", spread evenly" : ""}`;
}

/**
 * Returns a sentence about tasks that wait for other tasks. It names one that waits, and the task at the end of its chain. Null if no
 * task waits.
 */
function whyBlocked(node: NodeState, queue: HandlerQueue): string | null {
  const { dependencies, tasks } = queue.state;
  const count = dependencies?.blocked.size ?? 0;
  const example = dependencies?.example(tasks) ?? null;
  if (count === 0 || example === null) return null;
  const { task, after, on } = example;
  const end = `the task "${after}", which ${on === null ? "no task has added yet" : whyDependency(node, queue, on)}`;
  return count === 1
    ? `Task ${task} waits for ${end}.`
    : `${count} tasks wait for other tasks, such as task ${task} for ${end}.`;
}

/** Describes, as the predicate of a sentence, the state of a task that other tasks wait for and that waits for no task itself. */
function whyDependency(node: NodeState, { state, leases }: HandlerQueue, task: number): string {
  const { tasks, progress, children } = state;
  if (leases.has(task)) return "runs";
  const child = children.get(task);
  if (child?.isOpen === true) return `runs as the child ${child.child}`;
  const known = progress.tasks.get(task);
  if (known?.isWaiting(node.now) === true) {
    const [wait] = known.waits;
    if (wait?.child === true) return "waits for a child";
    return wait === undefined || wait.due !== null ? "sleeps" : `waits for the signal "${wait.signals[0]}"`;
  }
  const until = tasks.until(task);
  const ms = until - node.now;
  return ms > 0 && until < NEVER
    ? `failed before and is tried again in ${showDuration(ms)}`
    : "has not begun";
}

/** Returns the reason if a task can be granted now, or if the handler is about to end. */
function whyNext(node: NodeState, { project }: Execution, queue: HandlerQueue): Reason {
  const { state } = queue;
  const left = unblocked(state);
  const isEnumeration = queue.wantsEnumeration(node.now);
  if (!isEnumeration && left === 0) return because("running", "has no open tasks and is about to end");
  const wanted = isEnumeration ? state.plan.enumerator : state.plan.wanted;
  const workers = [...node.roster.workers.values()].filter(
    (worker) => node.roster.servedBy(worker, wanted, project) !== undefined,
  );
  const [leaving] = workers.filter(({ why, queued }) => why !== null && !queued);
  const taking = workers.filter(({ why }) => why === null);
  const what = isEnumeration ? "its enumeration" : `${left} ${left === 1 ? "task" : "tasks"}`;
  if (leaving !== undefined && taking.length === 0)
    return because(
      "worker",
      `waits for another worker: ${leaving.id} serves it and takes nothing more (${leaving.why})`,
    );
  if (!isEnumeration && taking.every(({ queued }) => queued) && queue.needsJournal(queue.peek(node.now)))
    return because(
      "worker",
      `waits for a worker over HTTP or in process: ${what} ${left === 1 ? "has" : "have"} journaled steps, which workers at the broker cannot continue`,
    );
  if (workers.length === 0 || taking.some(({ capacity, held }) => held < capacity))
    return because("running", `is about to give out ${what}`);
  const held = workers.reduce((sum, worker) => sum + worker.held, 0);
  const capacity = workers.reduce((sum, worker) => sum + worker.capacity, 0);
  const who =
    workers.length === 1 ? "the worker that serves it holds" : `${workers.length} workers that serve it hold`;
  return because("worker", `waits with ${what} for a free worker: ${who} ${held} of ${capacity}`);
}

/**
 * Returns the reason if the definition gives the handler a single task, but the code of its workers enumerates. Perhaps a fan-out was
 * meant.
 */
function whySingle({ use }: Wanted, worker: string): string {
  return (
    `waits: by its definition its one task is the input, but the worker ${worker} enumerates "${use}". ` +
    'To have the tasks enumerated, register the definition again with "rondo": 2 (POST /v1/workflows), cancel this execution ' +
    `and start a new one. To have the input as its one task, serve "${use}" by code that does not enumerate.`
  );
}

function whyQueued({ roster }: NodeState, { id }: Execution, queue: HandlerQueue): string | null {
  if (roster.queued === null) return null;
  const { queues, queuesMax } = roster.queued;
  const needsQueues = queue.state.plan.command === null && !queues.has(`${id}/${queue.key}`);
  if (needsQueues && queues.size >= queuesMax && queue.openLeases === 0)
    return `waits for queues at the broker: ${queues.size} handlers have queues now, which is the most at a time.`;
  let waiting = 0;
  for (const lease of queue.leases.values())
    if (lease.queued && !lease.reported && lease.task !== ENUMERATION) waiting++;
  const but = whyNoBroker({ roster });
  if (waiting > 0)
    return `has ${waiting} ${waiting === 1 ? "task" : "tasks"} at the broker, for workers there${but}.`;
  const enumeration = queue.leases.get(ENUMERATION);
  const { use } = queue.state.plan.enumerator;
  return enumeration?.queued === true
    ? `has its enumeration at the broker, for a worker there that enumerates "${use}"${but}.`
    : null;
}

function whyNoBroker({ roster }: Pick<NodeState, "roster">): string {
  const why = roster.queued?.why ?? null;
  return why === null ? "" : `; ${why}`;
}

/** Returns the reason if tasks wait for a time, a signal or a child of their own, and nothing else is open. */
function whyWaits(node: NodeState, queue: HandlerQueue, at: string): Reason | null {
  const { progress, tasks, taskChildren } = queue.state;
  const suspended = progress.tasks.size === 0 ? 0 : progress.countWaiting(node.now);
  if (suspended === 0 || suspended < unblocked(queue.state)) return null;
  const forChild = progress.countForChild(node.now);
  const [child] = [...taskChildren.values()].filter(({ isOpen }) => isOpen);
  if (forChild > 0 && child !== undefined)
    return because(
      "child",
      `${at} waits: ${forChild} ${forChild === 1 ? "task waits" : "tasks wait"} for a child, such as ${child.child}.`,
    );
  const shown = progress.signals.slice(0, UNREAD_SHOWN).map(shownSignal);
  const [first] = shown;
  if (first !== undefined)
    return because(
      "signal",
      `${at} waits: ${suspended} ${suspended === 1 ? "task waits" : "tasks wait"} for ${first.what === "update" ? "an update" : "a signal"}, such as "${shown.map(({ name }) => name).join('" or "')}".`,
    );
  const next = tasks.nextDue();
  const left = next > node.now ? ` for another ${showDuration(next - node.now)}` : "";
  return because(
    "sleep",
    `${at} waits: ${suspended} ${suspended === 1 ? "task sleeps" : "tasks sleep"}${left}.`,
  );
}

function whyChildren(node: NodeState, queue: HandlerQueue, at: string): Reason | null {
  const { openChildren, children, plan } = queue.state;
  if (openChildren > 0) {
    const [first] = [...children.values()].filter(({ isOpen }) => isOpen);
    return because(
      "child",
      `${at} waits for ${openChildren} ${openChildren === 1 ? "child" : "children"}, such as ${first?.child}.`,
    );
  }
  const workflow = plan.definition.workflow ?? "";
  if (node.newest.isMissing(workflow) && !queue.wantsEnumeration(node.now))
    return because("child", `${at} waits for a workflow: there is none with the name "${workflow}".`);
  return null;
}

/** Says for how long no worker has served the code, if that is known. */
function lastLeft({ roster, now }: NodeState, { use }: Wanted, project: string): string {
  const leftAt = roster.leftAt(use);
  return leftAt === undefined || roster.versions(use, project).length > 0
    ? ""
    : `; the last one left ${showDuration(now - leftAt)} ago`;
}

function whoServes(node: NodeState, { use, range }: Wanted, project: string): string {
  const topic = topicOf(use);
  const name = use === SCRIPT_USE ? "scripts" : topic === null ? `"${use}"` : `the topic "${topic}"`;
  const versions = range === null ? [] : node.roster.versions(use, project);
  if (range === null) return name;
  const there =
    versions.length === 0
      ? ""
      : ` (there are ${versions.map((v) => v || "one without a version").join(", ")})`;
  const but =
    node.roster.queued === null ? "" : " over HTTP or in process (workers at RabbitMQ have no versions)";
  return `${name} in a version that fits "${range}"${there}${but}`;
}

function whyTimer(node: NodeState, execution: Execution, queue: HandlerQueue, at: string): Reason {
  const { definition, mode, name } = queue.state.plan;
  const timer = execution.timers.get(`${queue.visit.plan.name}.${queue.visit.visit}.${name}`);
  const left = timer === undefined ? null : showDuration(timer.due - node.now);
  if (mode === "sleep") return because("sleep", `${at} sleeps for another ${left ?? "moment"}.`);
  return because(
    "signal",
    `${at} waits for the signal "${definition.waitFor}"${left === null ? "" : `, for another ${left} at most`}.`,
  );
}

/** Describes the open work that a draining visit waits for. */
function open(slot: Slot): string {
  const attempts = slot.leaseCount;
  const children = slot.execution?.current?.openChildren ?? 0;
  const parts = children > 0 ? [`${children} open ${children === 1 ? "child" : "children"}`] : [];
  const owed = [...(slot.execution?.postops.values() ?? [])].filter(({ awaited }) => awaited).length;
  if (owed > 0) parts.push(`${owed} owed ${owed === 1 ? "post-operation" : "post-operations"}`);
  if (attempts > 0 || parts.length === 0)
    parts.unshift(`${attempts} open ${attempts === 1 ? "attempt" : "attempts"}`);
  return parts.join(" and ");
}

function isHeldFor(node: NodeState, queue: HandlerQueue): boolean {
  for (const { alone } of node.roster.workers.values())
    if (alone?.kind === "waiting" && alone.queue === queue) return true;
  return false;
}

export function whyCommand(
  { roster, now }: NodeState,
  execution: Execution,
  { queue, at }: { readonly queue: HandlerQueue; readonly at: string },
): string | null {
  const { command } = queue.state.plan;
  if (command === null) return null;
  const owed = [...execution.postops.values()].find(
    ({ awaited, handler, phase }) =>
      awaited && handler === queue.state.plan.name && phase === queue.visit.plan.name,
  );
  if (owed !== undefined) return `${at}: ${whyOwed(execution, owed, now)}.`;
  const since = Math.min(
    ...[...queue.leases.values()].map(({ startedAt }) => startedAt).filter((t) => t > 0),
  );
  const noBroker = roster.queued?.why ?? null;
  if (queue.openLeases === 0) {
    const { wanted } = queue.state.plan;
    const isStuck = noBroker !== null && roster.choose(wanted, execution.project) === null;
    return isStuck ? `${at} cannot be sent to the topic ${command.topic}: ${noBroker}.` : null;
  }
  const more = queue.openLeases === 1 ? "a receipt" : `${queue.openLeases} receipts`;
  const what = `${more} of "${command.cmd.cmd_type}", sent to ${command.topic}, on ${command.receiptTopic}`;
  const isQueued = [...queue.leases.values()].some(({ queued, reported }) => queued && !reported);
  const but = isQueued && noBroker !== null ? `; ${noBroker}` : "";
  return since === Number.POSITIVE_INFINITY
    ? `${at} waits for ${what}${but}.`
    : `${at} has waited ${showDuration(Math.max(0, now - since))} for ${what}${but}.`;
}

/** Returns a sentence about the post-operations that an ended execution still owes; null if there are none. */
export function whyStillOwed(execution: Execution, now: number): string | null {
  const [first] = [...execution.postops.values()];
  return first === undefined ? null : whyOwed(execution, first, now);
}

function whyOwed(execution: Execution, op: OwedOp, now: number): string {
  const command = commandAt(execution.plan, op);
  const plan = command === null ? undefined : postOpPlan(command, op.op, op.index);
  const what = `${op.op} to ${plan === undefined ? "nowhere" : targetOf(plan)}`;
  if (op.lastError === null) return `${what} is under way`;
  return op.until > now
    ? `${what} is tried again in ${showDuration(op.until - now)}: ${op.lastError}`
    : `${what} is tried again now: ${op.lastError}`;
}
