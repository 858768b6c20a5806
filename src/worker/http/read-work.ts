/** Converts claimed work to grants. Values are kept as JSON texts; consecutive items of one handler become one grant. */
import { receiptTopicOf, topicOf } from "../../kernel/command/topic-rules.ts";
import { attemptPrefix, decodeAttempt } from "../../protocol/attempt-id.ts";
import {
  type Checkpoint,
  type CommandWork,
  type Grant,
  type GrantItem,
  type ReportedAttempt,
  readCompensation,
  type ScriptWork,
} from "../../protocol/work.ts";
import type { Claimed, TaskBatch, WorkItem } from "../../protocol/worker-wire.ts";
import { assert } from "../../std/assert.ts";

/** A checkpoint of an earlier attempt. Its position in the journal is replaced by a number under which it is kept in memory. */
export type KeptCheckpoint = { readonly result: string } | { readonly error: string };

/** Stores a checkpoint in memory; returns the number by which it can be read. */
export type Keep = (payload: KeptCheckpoint) => number;

/** An attempt that was claimed. */
export interface ReadItem {
  readonly id: string;
  readonly token: string;
  readonly heartbeatMs: number;
  readonly at: ReportedAttempt;
  /** The numbers under which the checkpoints of the attempt are kept. */
  readonly kept: readonly number[];
}

export interface ReadWork {
  readonly grants: readonly Grant[];
  readonly items: readonly ReadItem[];
}

export function readWork({ work, batches = [], inputs, phases }: Claimed, keep: Keep): ReadWork {
  const texts = new Map<string, string>();
  const inputOf = (execution: string): string => {
    let text = texts.get(execution);
    if (text === undefined) {
      text = JSON.stringify(inputs[execution] ?? null);
      texts.set(execution, text);
    }
    return text;
  };
  const grants: Grant[] = [];
  const items: ReadItem[] = [];
  let open: { first: WorkItem; at: ReportedAttempt; list: GrantItem[] } | null = null;
  for (const one of work) {
    const at = decodeAttempt(one.attempt);
    assert(at !== null, "the id of an attempt that the server sends must be decodable");
    const kept: number[] = [];
    const item = itemOf(one, at, (payload) => {
      const number = keep(payload);
      kept.push(number);
      return number;
    });
    items.push({ id: one.attempt, token: one.token, heartbeatMs: one.heartbeatMs, at, kept });
    if (open === null || !isSameGrant(open, one, at)) {
      const list: GrantItem[] = [];
      open = { first: one, at, list };
      const counts = one.phases ?? phases[one.execution] ?? [];
      grants.push({ ...grantOf(one, at), input: inputOf(one.execution), phases: counts, items: list });
    }
    open.list.push(item);
  }
  for (const batch of batches) {
    const counts = phases[batch.execution] ?? [];
    const list = readBatch(batch, items);
    grants.push({ ...grantOf(batch, batch), input: inputOf(batch.execution), phases: counts, items: list });
  }
  return { grants, items };
}

const NONE: readonly number[] = [];

/** Reads the tasks of a batch, and adds their attempts to `items`. */
function readBatch(batch: TaskBatch, items: ReadItem[]): readonly GrantItem[] {
  const { execution, phase, visit, handler, round, epoch, heartbeatMs } = batch;
  const prefix = attemptPrefix(batch);
  return batch.tasks.map(([number, attempt, claim, token, task]) => {
    const id = `${prefix}${number}.${attempt}.${claim}.${epoch}`;
    const at = { execution, phase, visit, handler, round, epoch, task: number, attempt, claim };
    items.push({ id, token, heartbeatMs, at, kept: NONE });
    return { number, attempt, claim, task: JSON.stringify(task), checkpoints: null };
  });
}

/**
 * Whether an item belongs to the same grant as the item before. Each script and each enumeration gets a grant of its own,
 * because it has its own data.
 */
function isSameGrant(
  { first, at: firstAt }: { first: WorkItem; at: ReportedAttempt },
  one: WorkItem,
  at: ReportedAttempt,
): boolean {
  return (
    first.do === one.do &&
    one.do !== "script" &&
    one.do !== "enumerate" &&
    first.execution === one.execution &&
    first.phase === one.phase &&
    first.visit === one.visit &&
    first.handler === one.handler &&
    first.use === one.use &&
    first.version === one.version &&
    firstAt.round === at.round &&
    firstAt.epoch === at.epoch
  );
}

function itemOf(one: WorkItem, at: ReportedAttempt, keep: Keep): GrantItem {
  const checkpoints: Checkpoint[] = [];
  for (const step of one.steps ?? []) {
    const { name } = step;
    if ("map" in step) checkpoints.push({ kind: "step", name, seq: 0, map: step.map });
    else if ("result" in step)
      checkpoints.push({ kind: "step", name, seq: keep({ result: JSON.stringify(step.result) }) });
    else if ("error" in step)
      checkpoints.push({ kind: "step", name, seq: keep({ error: JSON.stringify(step.error) }) });
    else checkpoints.push({ kind: "sleep", name, due: "until" in step ? step.until : 0 });
  }
  for (const { name, tries, until } of one.tries ?? [])
    checkpoints.push({ kind: "tries", name, tries, due: until });
  for (const name of one.children ?? []) checkpoints.push({ kind: "child", name });
  for (const [name, time] of Object.entries(one.times ?? {}))
    checkpoints.push({ kind: "time", name, at: time });
  for (let i = 0; i < (one.finished ?? 0); i++) {
    // Only the state after the last finished run is kept, because no other state is ever read.
    const isLast = i === (one.finished ?? 0) - 1;
    const seq = isLast ? keep({ result: JSON.stringify(one.state ?? null) }) : 0;
    checkpoints.push({ kind: "run", name: `${i}`, seq });
  }
  const compensates = readCompensation(one);
  const hasTask = one.do === "process" || one.do === "script" || one.do === "command";
  return {
    number: at.task,
    attempt: at.attempt,
    claim: at.claim,
    task: hasTask ? JSON.stringify(one.task ?? null) : null,
    checkpoints: checkpoints.length === 0 ? null : checkpoints,
    ...(compensates === undefined ? {} : { compensates }),
  };
}

/** Returns the fields of a grant without its items, from a work item or a batch. */
function grantOf(
  one: WorkItem | TaskBatch,
  at: { readonly round: number; readonly epoch: number },
): Omit<Grant, "input" | "phases" | "items"> {
  const { resume } = one;
  return {
    do: one.do,
    execution: one.execution,
    workflow: one.workflow,
    project: one.project,
    phase: one.phase,
    visit: one.visit,
    handler: one.handler,
    use: one.use,
    version: one.version,
    round: at.round,
    epoch: at.epoch,
    timeoutMs: one.timeoutMs,
    heartbeatMs: one.heartbeatMs,
    batch: one.batch,
    resume:
      resume === undefined
        ? null
        : { count: resume.count, last: JSON.stringify(resume.last), checksum: resume.checksum },
    script: one.do === "script" ? scriptOf(one) : null,
    command: one.do === "command" ? commandOf(one) : null,
    trace: one.traceparent ?? null,
  };
}

/** Returns all runs of a script. Finished runs come without their expressions, because they do not run again. */
function scriptOf({ runs = [], finished = 0, state }: WorkItem): ScriptWork {
  const done = Array.from({ length: finished }, (_, i) => ({
    name: `${i}`,
    expression: "",
    timeoutMs: null,
  }));
  return { runs: [...done, ...runs], state: JSON.stringify(state ?? null), resume: true };
}

/** Returns the command of a work item, with the attempt and step that the engine wrote into it. */
function commandOf({ use, task }: WorkItem): CommandWork {
  const topic = topicOf(use) ?? use;
  const mark = (task as { cmd_metadata?: { rondo?: { step?: unknown } } } | null)?.cmd_metadata?.rondo;
  const step = typeof mark?.step === "number" ? mark.step : 0;
  return { step, topic, receiptTopic: receiptTopicOf(topic) };
}
