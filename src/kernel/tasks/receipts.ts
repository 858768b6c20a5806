/**
 * Handles receipts of tasks. The outcome of a task counts once, because it is a bit in a set: duplicates, redeliveries and late
 * receipts find the bit set and change nothing. A live attempt holds its lease; a late one has lost it. A late `done` settles a task
 * that is still open; any other late receipt is only recorded.
 */
import { assert } from "../../std/assert.ts";
import { DURATION_MAX_MS } from "../../std/duration.ts";
import { advance, emitTasks } from "../advance.ts";
import { enrich } from "../command/post-op.ts";
import { LIMITS } from "../definition/definition.ts";
import { type Items, nameItems, uniqueItems, whyUneven } from "../definition/task-name.ts";
import type { OpenWait } from "../event.ts";
import type { HandlerState } from "../execution.ts";
import {
  type Answer,
  type AttemptRef,
  type LostMessage,
  type Outcome,
  type Receipt,
  type ReceiptsMessage,
  type StartedMessage,
  type TaskWait,
  type Verdict,
  waitsOf,
} from "../message.ts";
import type { Step } from "../step.ts";
import { withContinuation } from "../succession.ts";
import { ENGINE } from "../timers.ts";
import { BulkRecorder } from "./bulk-recorder.ts";
import { CHECKPOINTS_MAX } from "./checkpoint.ts";
import { delayMs } from "./retry.ts";
import { closeRun } from "./run-notices.ts";
import { finishedRuns } from "./script-runs.ts";
import { taskChildKey } from "./task-children.ts";
import type { RecordedStart } from "./task-table.ts";
import { armTask } from "./task-waits.ts";
import { closeWaits } from "./wait-timers.ts";

/** Applies a batch of receipts for one handler. */
export function receipts(step: Step, message: ReceiptsMessage): Answer {
  const { execution } = step;
  const handler = execution.handlerAt(message);
  if (handler === undefined || execution.ended || execution.currentVisit().status !== "running") {
    const kept = execution.keptVisit(message.phase, message.visit)?.handler(message.handler);
    if (kept !== undefined) return receiptsOfKept(step, kept, message);
    return { kind: "ignored", why: "the phase is over", verdicts: message.receipts.map(() => "gone") };
  }
  const recorder = new BulkRecorder(step, handler);
  const verdicts: Verdict[] = [];
  for (const receipt of message.receipts) verdicts.push(applyReceipt(step, handler, recorder, receipt));
  recorder.flush();
  if (handler.plan.adds) {
    const counted = message.receipts.filter(
      ({ task, outcome: { status } }, i) =>
        /* @plant task added by a duplicate receipt counted twice */ verdicts[i] === "accepted" &&
        status === "done" &&
        handler.tasks.isDone(task),
    );
    emitAdded(step, handler, counted);
  }
  emitContinuing(step, handler, message.receipts, verdicts);
  if (handler.progress.tasks.size > 0)
    message.receipts.forEach(({ task, outcome }, i) => {
      if (outcome.status === "suspended" && verdicts[i] === "accepted")
        armTask(step, handler, task, waitsOf(outcome));
    });
  advance(step);
  return { kind: "applied", seq: execution.seq, verdicts };
}

/**
 * Records receipts for an ended visit that may be compensated: attempts that counted as lost have ended. The receipts change no
 * outcome.
 */
function receiptsOfKept(step: Step, handler: HandlerState, message: ReceiptsMessage): Answer {
  const { phase, visit, handler: name } = message;
  const isLost = message.receipts.map(({ task, attempt }) => handler.tasks.isLost(task, attempt));
  const late = message.receipts.filter((_, i) => isLost[i]);
  const verdicts = isLost.map((lost): Verdict => (lost ? "late" : "gone"));
  if (late.length === 0) return { kind: "ignored", why: "the phase is over", verdicts };
  step.emit({
    kind: "tasks.late",
    phase,
    visit,
    handler: name,
    tasks: late.map(({ task }) => task),
    attempts: late.map(({ attempt }) => attempt),
    statuses: late.map(({ outcome }) => outcome.status),
    accepted: late.map(() => false),
  });
  return { kind: "applied", seq: step.execution.seq, verdicts };
}

/** Records the starts of open tasks. If a former owner recorded the start, the owner that adopted the attempt records it again. */
export function attemptsStarted(step: Step, message: StartedMessage): Answer {
  const handler = openHandler(step, message);
  if (handler === null) return { kind: "ignored", why: "the phase is over" };
  const { epoch } = message;
  const isNew = (start: RecordedStart | undefined, attempt: number) =>
    start === undefined || (start.attempt === attempt && (start.epoch ?? 0) < (epoch ?? 0));
  const begun = message.attempts.filter(
    ({ task, attempt }) =>
      isOpen(handler, task) &&
      attempt > handler.tasks.ended(task) &&
      isNew(handler.tasks.startOf(task), attempt),
  );
  if (begun.length === 0) {
    // The start may have been recorded by an earlier commit of unknown outcome. Then it counts as applied.
    const isRecorded = message.attempts.some(
      ({ task, attempt }) => handler.tasks.startOf(task)?.attempt === attempt,
    );
    return isRecorded
      ? { kind: "applied", seq: step.execution.seq }
      : { kind: "ignored", why: "nothing to record" };
  }
  emitAttempts(step, "tasks.started", message, begun);
  return { kind: "applied", seq: step.execution.seq };
}

function emitAttempts(
  step: Step,
  kind: "tasks.started" | "tasks.lost",
  { handler, epoch }: { readonly handler: string; readonly epoch?: number | undefined },
  attempts: readonly AttemptRef[],
): void {
  step.emit({
    kind,
    ...step.execution.currentVisit().place(handler),
    tasks: attempts.map(({ task }) => task),
    attempts: attempts.map(({ attempt }) => attempt),
    workers: attempts.map(({ worker }) => worker),
    ...(epoch === undefined ? {} : { epoch }),
  });
}

/** Records attempts whose workers became silent, with their starts. A task fails once it has used up its allowed crashes. */
export function attemptsLost(step: Step, message: LostMessage): Answer {
  const handler = openHandler(step, message);
  if (handler === null) return { kind: "ignored", why: "the phase is over" };
  const gone = message.attempts.filter(
    ({ task, attempt }) => isOpen(handler, task) && attempt > handler.tasks.ended(task),
  );
  if (gone.length === 0) return { kind: "ignored", why: "nothing is lost" };
  if (message.isUnbegun === true) return releaseUnbegun(step, handler, gone);
  const unrecorded = gone.filter(({ task }) => handler.tasks.startOf(task) === undefined);
  // @plant lost attempt without its start
  if (unrecorded.length > 0) emitAttempts(step, "tasks.started", { handler: message.handler }, unrecorded);
  // @plant run of a lost attempt stays open
  for (const { task } of gone) closeRun(step, handler, task, "lost");
  emitAttempts(step, "tasks.lost", { handler: message.handler }, gone);
  const recorder = new BulkRecorder(step, handler);
  for (const { task, attempt, worker } of gone) {
    const crashes = handler.tasks.crashes(task);
    // @plant crashes not counted
    if (crashes < handler.plan.crashes) continue;
    const error = {
      name: "Lost",
      code: "crashes",
      message: `lost with its worker or process ${crashes} times`,
    };
    recorder.settle({
      task,
      attempt,
      status: "failed",
      reason: "crashes",
      worker,
      ms: 0,
      payload: JSON.stringify(error),
    });
  }
  recorder.flush();
  advance(step);
  return { kind: "applied", seq: step.execution.seq };
}

/**
 * Ends attempts that were granted and waited in a queue of a broker. Their tasks are pending again, and count as tasks that may have
 * begun, because a worker may have received them.
 */
function releaseUnbegun(step: Step, handler: HandlerState, attempts: readonly AttemptRef[]): Answer {
  const recorder = new BulkRecorder(step, handler);
  const error = JSON.stringify({
    name: "Released",
    message: "the attempt waited in a queue when the engine stopped",
  });
  for (const { task, attempt } of attempts)
    recorder.retry({ task, attempt, reason: "released", until: step.now, error });
  recorder.flush();
  advance(step);
  return { kind: "applied", seq: step.execution.seq };
}

function openHandler(step: Step, message: StartedMessage | LostMessage): HandlerState | null {
  const { execution } = step;
  const handler = execution.handlerAt(message);
  if (handler === undefined || execution.ended || handler.finished) return null;
  const visit = execution.currentVisit();
  return visit.status === "running" && visit.round === message.round ? handler : null;
}

function isOpen(handler: HandlerState, task: number): boolean {
  return task < handler.offered && !handler.isClosed(task);
}

function applyReceipt(step: Step, handler: HandlerState, recorder: BulkRecorder, receipt: Receipt): Verdict {
  const { task, attempt } = receipt;
  if (recorder.holds(task)) recorder.flush();
  const isTask = Number.isInteger(task) && task >= 0 && task < handler.offered;
  if (handler.plan.waits || handler.plan.mode === "workflow" || !isTask) return "stale";
  const wasLost = handler.tasks.isLost(task, attempt);
  // @plant settled task counted again
  if (!handler.isClosed(task)) {
    const isCurrent = receipt.round === step.execution.currentVisit().round;
    if (receipt.live && isCurrent && attempt > handler.tasks.ended(task))
      return applyLive(step, handler, recorder, receipt);
    const isNews = wasLost || attempt > handler.tasks.ended(task) || !isCurrent;
    // A later attempt that has journaled a checkpoint has taken over, so this receipt must not settle the task. The same applies to a
    // later lease of the same attempt.
    const isPassed =
      handler.progress.isPassed(receipt) ||
      (isCurrent && !wasLost && handler.progress.isPassed({ ...receipt, attempt: attempt - 1 }));
    if (
      receipt.outcome.status === "done" &&
      isNews &&
      // @plant late done after a later step
      !isPassed &&
      validated(handler, step, receipt).status === "done"
    ) {
      complete(step, handler, recorder, receipt);
      if (!wasLost) return "accepted";
      recorder.late({ task, attempt, status: "done", accepted: true });
      return "accepted";
    }
  }
  if (!wasLost) return attempt <= handler.tasks.ended(task) || handler.isClosed(task) ? "duplicate" : "stale";
  recorder.late({ task, attempt, status: receipt.outcome.status, accepted: false });
  return "late";
}

function applyLive(step: Step, handler: HandlerState, recorder: BulkRecorder, receipt: Receipt): Verdict {
  const { task, attempt } = receipt;
  const outcome = withChildren(handler, task, withinLimit(handler, task, validated(handler, step, receipt)));
  if (outcome.status === "done") {
    complete(step, handler, recorder, receipt);
    return "accepted";
  }
  if (outcome.status === "failed") noteErrorReceipt(step, handler, recorder, receipt);
  const isDraining = step.execution.draining;
  if (outcome.status === "suspended" && !isDraining) {
    const waits = waitsOf(outcome);
    if (handler.progress.tasks.size > 0) closeWaits(step, handler, task, waits);
    recorder.wait({ task, attempt, waits: suspension(step, waits) });
    return "accepted";
  }
  if (outcome.status === "cancelled" || outcome.status === "suspended") {
    // The worker has returned the attempt: the task is pending again, and neither an attempt nor a crash counts. While the visit
    // drains, the end of the visit cancels the task. Then only a journaled attempt is released, so that the next round does not use
    // its number again.
    if (!isDraining || isJournaled(handler, receipt))
      recorder.retry({ task, attempt, reason: "released", until: step.now, error: outcome.payload });
    return "accepted";
  }
  const isCrash = outcome.status === "crashed";
  const fails = handler.tasks.fails(task) + (isCrash ? 0 : 1);
  const crashes = handler.tasks.crashes(task) + (isCrash ? 1 : 0);
  const over = outcome.fatal
    ? "fatal"
    : fails >= handler.plan.attempts
      ? "attempts"
      : crashes >= handler.plan.crashes
        ? "crashes"
        : null;
  if (over !== null) {
    recorder.settleReceipt(receipt, "failed", over, outcome.payload);
    return "accepted";
  }
  const visit = step.execution.currentVisit();
  const id = `${step.execution.id}/${visit.plan.name}/${visit.visit}/${handler.plan.name}/${task}/${attempt}`;
  const delay = delayMs(handler.plan, Math.max(1, fails + crashes), {
    id,
    retryAfterMs: outcome.retryAfterMs,
  });
  recorder.retry({ task, attempt, reason: outcome.status, until: step.now + delay, error: outcome.payload });
  return "accepted";
}

/** Whether the journal has the start, a notice or a checkpoint of this attempt. */
function isJournaled({ tasks, progress, notices }: HandlerState, { task, attempt, round }: Receipt): boolean {
  if (tasks.startOf(task)?.attempt === attempt || notices.get(task)?.attempt === attempt) return true;
  const left = progress.tasks.get(task);
  return left?.attempt === attempt && left.round === round;
}

/** Settles a task as done. If post-operations of a command come first, only its result is recorded. */
function complete(step: Step, handler: HandlerState, recorder: BulkRecorder, receipt: Receipt): void {
  const { payload } = receipt.outcome;
  const { command } = handler.plan;
  if (command === null) return recorder.settleReceipt(receipt, "done", null, payload);
  // @plant result of a command not enriched
  const result = enrich(payload, command.enrichment);
  recorder.flush();
  emitReceipted(step, handler, receipt, { result, error: null });
  // @plant command done before it is persisted
  if (!command.holds) recorder.settleReceipt(receipt, "done", null, result);
}

/** Records the error that a worker reported for a command. An error that the engine itself found is not a receipt. */
function noteErrorReceipt(step: Step, handler: HandlerState, recorder: BulkRecorder, receipt: Receipt): void {
  if (handler.plan.command === null || receipt.worker === ENGINE) return;
  recorder.flush();
  emitReceipted(step, handler, receipt, { result: null, error: receipt.outcome.payload });
}

function emitReceipted(
  step: Step,
  handler: HandlerState,
  { task, attempt, attemptId, worker, ms }: Receipt,
  answer: { readonly result: string | null; readonly error: string | null },
): void {
  step.emit({
    kind: "command.receipted",
    ...step.execution.currentVisit().place(handler.plan.name),
    task,
    attempt,
    ...(attemptId === undefined ? {} : { attemptId }),
    step: handler.plan.command?.step ?? 0,
    procStatus: answer.error === null ? "COMPLETE" : "ERROR",
    ...answer,
    worker,
    ms,
  });
}

/** Returns the open waits of a suspended attempt. If there are none, the task continues at once. */
function suspension(step: Step, waits: readonly TaskWait[]): readonly OpenWait[] {
  if (waits.length === 0) return [{ name: "", due: Math.max(1, step.now) }];
  return waits.map(({ name, signal, anyOf, match, untilMs = step.now, forMs, retry, child }) => {
    if (child === true) return { name, child };
    const matched = match === undefined ? {} : { match };
    if (anyOf !== undefined) return { name, signals: anyOf, any: true, ...matched };
    if (signal !== undefined) return { name, signals: [signal], ...matched };
    const until = forMs === undefined ? untilMs : step.now + forMs;
    const due = Math.max(1, Math.min(until, step.now + DURATION_MAX_MS));
    return { name, due, ...(retry === true ? { retry } : {}) };
  });
}

/** Counts a sleep or a wait as a checkpoint. If the task has too many checkpoints, returns a fatal failure. */
function withinLimit(handler: HandlerState, task: number, outcome: Outcome): Outcome {
  if (outcome.status !== "suspended") return outcome;
  const progress = handler.progress.tasks.get(task);
  const added = waitsOf(outcome).filter(({ name }) => progress?.named.has(name) !== true).length;
  if (added === 0 || (progress?.size ?? 0) + added <= CHECKPOINTS_MAX) return outcome;
  const error = {
    name: "TooManySteps",
    code: "too_large",
    message: `a task may have at most ${CHECKPOINTS_MAX} steps, sleeps and waits`,
  };
  return { status: "failed", fatal: true, payload: JSON.stringify(error) };
}

/** If a suspended task would wait for a child that it has not requested, returns a fatal failure. */
function withChildren(handler: HandlerState, task: number, outcome: Outcome): Outcome {
  if (outcome.status !== "suspended") return outcome;
  const { progress, taskChildren } = handler;
  const lacking = waitsOf(outcome).find(
    ({ name, child }) =>
      child === true &&
      taskChildren.get(taskChildKey(task, name))?.isOpen !== true &&
      progress.tasks.get(task)?.named.get(name)?.kind !== "step",
  );
  if (lacking === undefined) return outcome;
  const error = {
    name: "NoChild",
    code: "invalid",
    message: `the task waits for a child "${lacking.name}", which it has not started`,
  };
  return { status: "failed", fatal: true, payload: JSON.stringify(error) };
}

/** Returns the failure of a script attempt that reports done before its last run is finished; null if all runs are finished. */
function unfinished(handler: HandlerState, receipt: Receipt): Outcome | null {
  const { script = [] } = handler.plan.definition;
  const finished = finishedRuns(handler, receipt).length;
  if (finished >= script.length) return null;
  const error = {
    name: "RunsUnfinished",
    code: "wrong_status",
    message: `the attempt reports done, but only ${finished} of ${script.length} runs are finished (${script[finished]?.name} is next)`,
  };
  return { status: "failed", payload: JSON.stringify(error) };
}

/**
 * Journals the tasks that the tasks of these receipts added, each identity once. This happens in the step that settles the tasks, so
 * the handler cannot end before the added tasks are known. A receipt that does not count adds nothing.
 */
function emitAdded(step: Step, handler: HandlerState, counted: readonly Receipt[]): void {
  const { identities: known } = handler;
  const seen = new Set<string>();
  const items = { tasks: [] as string[], keys: [] as string[], identities: [] as string[] };
  const afters: (readonly string[])[] = [];
  const addedBy: number[] = [];
  for (const { task, outcome } of counted) {
    if (outcome.adds === undefined) continue;
    const own = nameItems(handler.plan.definition, outcome.adds);
    assert(!("why" in own), "the tasks of a receipt that counts must have names");
    own.tasks.forEach((text, i) => {
      const identity = known === null ? undefined : own.identities?.[i];
      // @plant added task counted again though its identity is known
      if (identity !== undefined && (seen.has(identity) || known?.has(identity) === true)) return;
      if (identity !== undefined) seen.add(identity);
      items.tasks.push(text);
      if (own.keys !== null) items.keys.push(own.keys[i] as string);
      if (identity !== undefined) items.identities.push(identity);
      afters.push(own.afters?.[i] ?? []);
      addedBy.push(task);
    });
  }
  if (addedBy.length === 0) return;
  const page = {
    tasks: items.tasks,
    keys: items.keys.length === addedBy.length ? items.keys : null,
    identities: known === null ? null : items.identities,
    ...(handler.dependencies === null ? {} : { afters }),
  };
  emitTasks(step, handler, page, addedBy);
}

/** Journals once that a task asks to continue as another execution. If the execution is cancelled, it continues after a retry. */
function emitContinuing(
  step: Step,
  { tasks }: HandlerState,
  receipts: readonly Receipt[],
  verdicts: readonly Verdict[],
): void {
  receipts.forEach(({ task, outcome: { continueAs } }, i) => {
    if (continueAs === undefined || verdicts[i] !== "accepted" || !tasks.isDone(task)) return;
    if (step.execution.continuing === null) step.emit({ kind: "continuing", input: continueAs });
  });
}

/** Checks a done task that adds tasks. Returns its outcome, or a fatal failure if the tasks cannot be added. */
function withAdded(handler: HandlerState, outcome: Outcome, adds: Items): Outcome {
  const fail = (name: string, message: string, code = "invalid"): Outcome => ({
    status: "failed",
    fatal: true,
    payload: JSON.stringify({ name, code, message }),
  });
  if (!handler.plan.adds)
    return fail("InvalidTask", "the task adds tasks, but the definition of its handler does not have `adds`");
  const { addedTasks, addedChars, taskBytes, tasksPerVisit } = LIMITS;
  if (adds.tasks.length > addedTasks)
    return fail("TooManyTasks", `an attempt may add at most ${addedTasks} tasks`, "too_large");
  if (adds.tasks.reduce((sum, { length }) => sum + length, 0) > addedChars)
    return fail("TooManyTasks", `an attempt may add at most ${addedChars} characters of tasks`, "too_large");
  if (adds.tasks.some(({ length }) => length > taskBytes))
    return fail("InvalidTask", `a task may have at most ${taskBytes} bytes`, "too_large");
  const named = nameItems(handler.plan.definition, adds);
  if ("why" in named) return fail("InvalidTask", named.why);
  const uneven = whyUneven(named);
  if (uneven !== null) return fail("InvalidTask", uneven);
  if (handler.identities !== null && named.identities === null)
    return fail("InvalidTask", "a task that is added needs an identity, since the definition has `identity`");
  const { identities: known } = handler;
  const fresh = known === null ? named : uniqueItems(named, (identity) => known.has(identity));
  if (handler.total + fresh.tasks.length > tasksPerVisit)
    return fail(
      "TooManyTasks",
      `a handler may have at most ${tasksPerVisit} tasks in one visit`,
      "too_large",
    );
  return outcome;
}

/** Returns the checked outcome: a decision must name one of its phases, and a script is done only after its last run. */
function validated(handler: HandlerState, step: Step, receipt: Receipt): Outcome {
  const { outcome } = receipt;
  if (outcome.status !== "done") return outcome;
  if (outcome.continueAs !== undefined) return withContinuation(step.execution, handler, outcome);
  if (outcome.adds !== undefined) return withAdded(handler, outcome, outcome.adds);
  if (handler.plan.mode === "script") return unfinished(handler, receipt) ?? outcome;
  if (handler.plan.work !== "next") return outcome;
  const { among } = step.execution.currentVisit().plan;
  if (among.some((name) => outcome.payload === JSON.stringify(name))) return outcome;
  const error = {
    name: "InvalidNext",
    code: "invalid_next",
    message: `the decision answered ${outcome.payload.slice(0, 100)}, which is none of ${among.join(", ")}`,
  };
  return { status: "failed", fatal: true, payload: JSON.stringify(error) };
}
