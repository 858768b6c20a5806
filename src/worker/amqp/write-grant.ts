/** Messages from queues as grants, which a worker runs. */
import { topicUse } from "../../kernel/command/topic.ts";
import type { EnumerateMessage, TaskMessage } from "../../protocol/amqp-wire.ts";
import type { Grant, GrantItem, ReportedAttempt } from "../../protocol/work.ts";
import { reportPlace } from "../attempt-place.ts";
import type { TaskQueue } from "./task-queues.ts";

/** Deliveries of one task queue that came in one turn. */
export interface TaskBatch {
  readonly queue: TaskQueue;
  readonly at: ReportedAttempt;
  readonly message: TaskMessage;
  readonly items: GrantItem[];
}

const SHARED = {
  ...{ project: "", version: null, heartbeatMs: 0, phases: [], resume: null, batch: 1 },
  ...{ script: null, command: null, trace: null },
} as const;

/** An enumeration. */
export function enumerateGrant(use: string, message: EnumerateMessage, at: ReportedAttempt): Grant {
  const { resume } = message;
  return {
    ...SHARED,
    ...reportPlace(at),
    do: "enumerate",
    use,
    workflow: message.workflow ?? "",
    input: JSON.stringify(message.input ?? null),
    timeoutMs: message.timeout_ms ?? null,
    resume: resume === undefined ? null : { ...resume, last: JSON.stringify(resume.last) },
    items: [{ number: -1, attempt: at.attempt, claim: at.claim, task: null, checkpoints: null }],
  };
}

/** Tasks, a decision or an output. */
export function taskGrant({ queue, at, message, items }: TaskBatch): Grant {
  return {
    ...SHARED,
    ...reportPlace(at),
    do: message.do ?? "process",
    use: queue.use,
    workflow: queue.message.workflow ?? "",
    input: queue.input,
    timeoutMs: queue.message.timeout_ms ?? null,
    phases: message.phases ?? [],
    batch: queue.message.batch ?? 1,
    items,
  };
}

/** A command. */
export function commandGrant(
  topic: string,
  at: ReportedAttempt,
  { command, receiptTopic, step }: { command: object; receiptTopic: string; step: number },
): Grant {
  const { task: number, attempt, claim } = at;
  return {
    ...SHARED,
    ...reportPlace(at),
    do: "command",
    use: topicUse(topic),
    workflow: "",
    input: "null",
    timeoutMs: null,
    command: { step, topic, receiptTopic },
    items: [{ number, attempt, claim, task: JSON.stringify(command), checkpoints: null }],
  };
}

/** The attempt of a command that no engine sent. An engine counts rounds from 1, so it is no attempt of an execution. */
export function foreignAttempt(task: number): ReportedAttempt {
  const place = { execution: "foreign", phase: "command", visit: 1, handler: "command", round: 0, epoch: 0 };
  return { ...place, task, attempt: 1, claim: 0 };
}
