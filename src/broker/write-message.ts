/** Writes the messages to workers. Payloads are stored as JSON text, so the body of a message is put together as text. */
import type { EnumerateMessage, ProcessMessage, TaskMessage } from "../protocol/amqp-wire.ts";
import { encodeAttempt, reportedAttempt, signAttempt } from "../protocol/attempt-id.ts";
import { markCommand } from "../protocol/command-wire.ts";
import { idempotencyPrefix } from "../protocol/idempotency-key.ts";
import { compensationJson, type Grant, type GrantItem, type ReportedAttempt } from "../protocol/work.ts";
import type { BrokerNames, VisitPlace } from "./names.ts";

export interface VisitFacts {
  readonly workflow: string;
  readonly use: string;
  readonly input: string;
  readonly timeoutMs: number | null;
  readonly batch: number;
}

/** A roll call with its token, which workers repeat in their answers. */
export interface SignedRollCall {
  readonly number: number;
  readonly token: string;
}

export interface TaskCopy {
  readonly id: string;
  readonly body: Buffer;
}

/** Writes the messages for the tasks of one grant. */
export class TaskWriter {
  readonly #grant: Grant;
  readonly #key: string;
  readonly #keyPrefix: string;
  readonly #head: string;
  readonly #tail: string;

  constructor(grant: Grant, names: BrokerNames, key: string) {
    const { execution: workflow_id, phase, visit, handler } = grant;
    const head: Partial<TaskMessage> = { workflow_id, phase, visit, handler };
    this.#grant = grant;
    this.#key = key;
    this.#keyPrefix = idempotencyPrefix(grant);
    this.#head = JSON.stringify({ ...head, finished_queue: names.finished(grant) }).slice(0, -1);
    // Code that decides the next phase or returns the output gets the counts of the phases instead of a task.
    const reads = grant.do === "next" || grant.do === "returns";
    this.#tail =
      grant.do === "script"
        ? `,"do":"script"}`
        : reads
          ? `,"do":"${grant.do}","phases":${JSON.stringify(grant.phases)}}`
          : "}";
  }

  write(item: GrantItem): TaskCopy {
    const { number } = item;
    const id = encodeAttempt(reportedAttempt(this.#grant, item));
    const own = `,"task":${number},"attempt":"${id}","token":"${signAttempt(this.#key, id)}"`;
    const idempotency = `,"idempotency_key":"${this.#keyPrefix}${number}"`;
    const data = `,"data":${item.task ?? "null"}${compensationJson(item)}`;
    const body = `${this.#head}${own}${idempotency}${data}${this.#tail}`;
    return { id, body: Buffer.from(body) };
  }
}

/** Makes the message that asks one worker to enumerate. */
export function enumerateBody(grant: Grant, at: ReportedAttempt, names: BrokerNames, key: string): Buffer {
  const id = encodeAttempt(at);
  const { resume, timeoutMs } = grant;
  const message: Omit<EnumerateMessage, "input"> = {
    workflow_id: grant.execution,
    workflow: grant.workflow,
    phase: grant.phase,
    visit: grant.visit,
    handler: grant.handler,
    task_queue: names.intake(at),
    finished_queue: names.finished(at),
    cancel_consumer_queue: names.cancelConsumer,
    attempt: id,
    token: signAttempt(key, id),
    ...(resume === null ? {} : { resume: { ...resume, last: JSON.parse(resume.last) as unknown } }),
    ...(timeoutMs === null ? {} : { timeout_ms: timeoutMs }),
  };
  return Buffer.from(withInput(message, grant.input));
}

/** Makes the message that announces a task queue to every worker; with `alone`, the queue of lone tasks. */
export function processBody(
  at: VisitPlace,
  facts: VisitFacts,
  names: BrokerNames,
  { alone, rollCall }: { readonly alone: boolean; readonly rollCall: SignedRollCall | null },
): Buffer {
  const { timeoutMs, batch } = facts;
  const message: Omit<ProcessMessage, "input"> = {
    workflow_id: at.execution,
    workflow: facts.workflow,
    phase: at.phase,
    visit: at.visit,
    handler: at.handler,
    task_queue: alone ? names.alone(at) : names.tasks(at),
    finished_queue: names.finished(at),
    cancel_consumer_queue: names.cancelConsumer,
    ...(alone ? { prefetch: 1 } : {}),
    ...(batch > 1 && !alone ? { batch } : {}),
    ...(timeoutMs === null ? {} : { timeout_ms: timeoutMs }),
    ...(alone || rollCall === null ? {} : { roll_call: rollCall.number, token: rollCall.token }),
  };
  return Buffer.from(withInput(message, facts.input));
}

export function commandBody(grant: Grant, item: GrantItem, key: string): TaskCopy {
  const id = encodeAttempt(reportedAttempt(grant, item));
  return { id, body: Buffer.from(markCommand(grant, item, { id, token: signAttempt(key, id) })) };
}

function withInput(message: object, input: string): string {
  return `${JSON.stringify(message).slice(0, -1)},"input":${input}}`;
}
