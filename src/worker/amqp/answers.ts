/**
 * What the worker says, as messages: tasks that an enumeration found go to its intake, its end to `enumerated`, the last
 * word on a task to its finished queue, that on a command to its receipt topic. A delivery is acknowledged when the last
 * word on it is confirmed. That an attempt began, and what it logs, is not told over a broker.
 */
import type { EnumerationOutcome, Outcome } from "../../kernel/message.ts";
import type {
  EnumeratedMessage,
  FinishedMessage,
  IntakeMessage,
  ProcessMessage,
  RollCallMessage,
  WireError,
} from "../../protocol/amqp-wire.ts";
import { ROLL_CALL_HELD_MAX } from "../../protocol/amqp-wire.ts";
import type { Report } from "../../protocol/work.ts";
import { assert } from "../../std/assert.ts";
import type { CancelledCommands } from "./cancelled-commands.ts";
import type { Held, HeldAttempts, HeldCommand, HeldEnumeration, HeldTask } from "./held-attempts.ts";
import type { Published, Publisher } from "./publisher.ts";

export interface AnswersOptions {
  readonly held: HeldAttempts;
  readonly publisher: Publisher;
  readonly cancelled: CancelledCommands;
  /** The queue in which enumerations end. */
  readonly enumerated: string;
}

/** How often an enumeration may be delivered, and the header that counts it. */
const DELIVERIES_MAX = 5;
const DELIVERIES = "deliveries";

type Verdicts = readonly string[];
type PageReport = Extract<Report, { kind: "page" }>;

const NONE: Verdicts = [];

export class Answers {
  readonly #options: AnswersOptions;

  constructor(options: AnswersOptions) {
    this.#options = options;
  }

  /** Resolves when all of it is confirmed. */
  send(reports: readonly Report[]): Promise<readonly Verdicts[]> {
    return Promise.all(reports.map((report) => this.#say(report)));
  }

  async #say(report: Report): Promise<Verdicts> {
    switch (report.kind) {
      case "page":
        return this.#page(report);
      case "enumeration":
        return this.#end(report);
      case "receipts":
        return this.#receipts(report);
      case "started":
      case "logs":
        return NONE;
      case "step":
      case "run":
        assert(false, "code that keeps steps is refused before it runs them");
    }
  }

  /** Says which attempts out of a task queue are here, if that was asked. */
  rollCall(asked: ProcessMessage, by: { readonly worker: string; readonly consumes: boolean }): void {
    const { roll_call, token, task_queue, finished_queue: queue } = asked;
    if (roll_call === undefined || token === undefined) return;
    const held = this.#options.held.idsOf(task_queue);
    // An answer that leaves some out would be wrong.
    if (held.length > ROLL_CALL_HELD_MAX) return;
    const answer: RollCallMessage = { roll_call, task_queue, token, ...by, held };
    const body = Buffer.from(JSON.stringify(answer));
    // A queue that is gone has nobody who asks.
    this.#options.publisher.publish({
      queue,
      id: `roll-call~${roll_call}~${task_queue}`,
      body,
      done: () => {},
    });
  }

  /** The word on a task that was said before its delivery was lost, once more. */
  again(held: Held, body: Buffer): void {
    this.#publish(held, body, () => {});
  }

  /**
   * An enumeration that was delivered before: whoever had it went without a word. Its queue counts no deliveries, so it
   * goes back there as a message that says how many there were, and after a few it has crashed.
   */
  passOn(held: HeldEnumeration, queue: string): void {
    const { publisher, enumerated } = this.#options;
    const { content, properties } = held.delivery.message;
    const known = Number(properties.headers?.[DELIVERIES] ?? 1);
    const deliveries = (Number.isSafeInteger(known) ? known : 1) + 1;
    const id = `${held.id}~${deliveries}`;
    const done = (published: Published): void =>
      published === "confirmed" ? held.delivery.ack() : held.delivery.nack();
    if (deliveries > DELIVERIES_MAX) {
      const message = `${DELIVERIES_MAX} workers took the enumeration and went without a word`;
      const payload = JSON.stringify({ name: "Crashed", code: "crashed", message });
      const body = enumeratedBody(held, { status: "crashed", payload });
      return publisher.publish({ queue: enumerated, id, body, done });
    }
    const { expiration } = properties;
    publisher.publish({
      ...{ queue, id, body: content, headers: { [DELIVERIES]: deliveries }, done },
      ...(typeof expiration === "string" ? { expiration } : {}),
    });
  }

  #receipts(report: Extract<Report, { kind: "receipts" }>): Promise<Verdicts> {
    return new Promise((resolve) => {
      let open = report.receipts.length;
      const said = (): void => {
        if (--open === 0) resolve(NONE);
      };
      for (const { task, attempt, claim, ms, outcome } of report.receipts) {
        const held = this.#options.held.get({ ...report, task, attempt, claim });
        if (held === undefined || held.kind === "enumeration") said();
        else if (held.kind === "task") this.#publish(held, finishedBody(held, outcome, ms), said);
        else this.#receipt(held, outcome, said);
      }
    });
  }

  /** A command that was handed back has no receipt: it goes to whoever serves the topic next, unless it is cancelled. */
  #receipt(held: HeldCommand, outcome: Outcome, said: () => void): void {
    if (outcome.status !== "cancelled") {
      this.#publish(held, receiptBody(held, outcome), said);
      return;
    }
    const { held: all, cancelled } = this.#options;
    if (cancelled.has(held.at)) all.discard(held);
    else all.giveBack(held);
    said();
  }

  #end(report: Extract<Report, { kind: "enumeration" }>): Promise<Verdicts> {
    const { attempt, claim, outcome } = report;
    const held = this.#options.held.get({ ...report, task: -1, attempt, claim });
    if (held?.kind !== "enumeration") return Promise.resolve(NONE);
    return new Promise((resolve) => this.#publish(held, enumeratedBody(held, outcome), () => resolve(NONE)));
  }

  #publish(held: Held, body: Buffer, said: () => void): void {
    const { held: all, publisher, enumerated } = this.#options;
    const done = (published: Published): void => {
      if (published === "confirmed") all.release(held, body);
      // Its queue is not there: either nobody wants the word, or whoever gets the task again will say it.
      else all.giveBack(held);
      said();
    };
    const queue =
      held.kind === "task" ? held.finishedQueue : held.kind === "command" ? held.receiptTopic : enumerated;
    publisher.publish({ queue, id: held.id, body, done });
  }

  #page(page: PageReport): Promise<Verdicts> {
    const held = this.#options.held.get({ ...page, task: -1 });
    if (held?.kind !== "enumeration") return Promise.resolve(["gone"]);
    return new Promise((resolve) =>
      this.#options.publisher.publish({
        queue: held.message.task_queue,
        id: `${held.id}/${page.from}`,
        body: intakeBody(held, page),
        done: (published) => resolve([published === "confirmed" ? "accepted" : "gone"]),
      }),
    );
  }
}

function finishedBody({ at, id, token }: HeldTask, outcome: Outcome, ms: number): Buffer {
  assert(outcome.status !== "suspended" && outcome.status !== "exception", "nothing waits over a broker");
  const head: FinishedMessage = {
    workflow_id: at.execution,
    phase: at.phase,
    handler: at.handler,
    task: at.task,
    attempt: id,
    token,
    status: outcome.status,
    ms,
    ...(outcome.status === "done" ? {} : { error: errorOf(outcome) }),
  };
  const text = JSON.stringify(head);
  // The result is JSON text already.
  return Buffer.from(outcome.status === "done" ? `${text.slice(0, -1)},"result":${outcome.payload}}` : text);
}

/** The command again, with its result or its error. */
function receiptBody({ command }: HeldCommand, outcome: Outcome): Buffer {
  const { cmd_result: _, proc_err: __, ...cmd } = command;
  if (outcome.status !== "done") return Buffer.from(JSON.stringify({ ...cmd, proc_err: errorOf(outcome) }));
  return Buffer.from(`${JSON.stringify(cmd).slice(0, -1)},"cmd_result":${outcome.payload}}`);
}

/** All tasks of a page are one message: one for each would cost more than the tasks. */
function intakeBody({ message, id }: HeldEnumeration, page: PageReport): Buffer {
  const { workflow_id, phase, handler, token } = message;
  const head: Omit<IntakeMessage, "data"> = {
    workflow_id,
    phase,
    handler,
    position: page.from,
    attempt: id,
    token,
  };
  const items = page.tasks.map((data, i) => {
    const key = page.keys === null ? "" : `,"key":${JSON.stringify(page.keys[i])}`;
    const identity = page.identities === null ? "" : `,"identity":${JSON.stringify(page.identities[i])}`;
    return `{"data":${data}${key}${identity}}`;
  });
  return Buffer.from(`${JSON.stringify(head).slice(0, -1)},"items":[${items.join(",")}]}`);
}

function enumeratedBody({ message, id }: HeldEnumeration, outcome: EnumerationOutcome): Buffer {
  const { workflow_id, phase, handler, task_queue, finished_queue, token } = message;
  const { status } = outcome;
  assert(status !== "suspended" && status !== "exception", "nothing waits over a broker");
  const body: EnumeratedMessage = {
    ...{ workflow_id, phase, handler, task_queue, finished_queue, attempt: id, token, status },
    ...(outcome.status === "done" ? { total: outcome.total } : { error: errorOf(outcome) }),
  };
  return Buffer.from(JSON.stringify(body));
}

function errorOf({ payload, fatal, retryAfterMs }: Outcome): WireError {
  const error = JSON.parse(payload) as WireError;
  return {
    ...error,
    ...(fatal === true ? { fatal } : {}),
    ...(retryAfterMs === undefined ? {} : { retryAfterMs }),
  };
}
