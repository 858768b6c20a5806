/**
 * Publishes the worker's reports to the broker: pages of tasks, ends of enumerations, receipts. Starts and logs are not
 * published.
 */
import type { Items } from "../../kernel/definition/task-name.ts";
import type { EnumerationOutcome, Outcome } from "../../kernel/message.ts";
import type { Outgoing, Publisher } from "../../net/amqp/publisher.ts";
import type {
  EnumeratedMessage,
  FinishedMessage,
  IntakeMessage,
  ProcessMessage,
  RollCallMessage,
  WireError,
} from "../../protocol/amqp-wire.ts";
import { ROLL_CALL_HELD_MAX } from "../../protocol/amqp-wire.ts";
import { decodeAttempt, encodeAttempt } from "../../protocol/attempt-id.ts";
import type { Report } from "../../protocol/work.ts";
import { assert } from "../../std/assert.ts";
import type {
  CancelledCommands,
  Held,
  HeldAttempts,
  HeldCommand,
  HeldEnumeration,
  HeldTask,
} from "./held-attempts.ts";
import { isForeign } from "./read-message.ts";
import type { ReceiptSpool } from "./receipt-spool.ts";
import type { ScriptLink } from "./script-link.ts";

export interface AnswersOptions {
  readonly held: HeldAttempts;
  readonly publisher: Publisher;
  readonly cancelled: CancelledCommands;
  /** The queue for reports that an enumeration has ended. */
  readonly enumerated: string;
  /** The spool of receipts; null if receipts are kept in memory only. */
  readonly spool: ReceiptSpool | null;
  /** The link to servers for scripts; null if this worker runs no scripts. */
  readonly scripts: ScriptLink | null;
  readonly onBug: (thrown: unknown) => void;
}

/** The most deliveries of one enumeration. The message header `DELIVERIES` counts them. */
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

  send(reports: readonly Report[]): Promise<readonly Verdicts[]> {
    return Promise.all(reports.map((report) => this.#send(report)));
  }

  async #send(report: Report): Promise<Verdicts> {
    switch (report.kind) {
      case "page":
        return this.#page(report);
      case "enumeration":
        return this.#end(report);
      case "receipts":
        return this.#receipts(report);
      case "accepted":
      case "started":
        for (const attempt of report.attempts) {
          const held = this.#options.held.get({ ...report, ...attempt });
          if (held === undefined) continue;
          if (report.kind === "started") held.hasStarted = true;
          await this.#options.scripts?.send(held.id, report);
        }
        return NONE;
      case "logs":
      case "run":
      case "run.started":
      case "run.crashed": {
        const verdict = await this.#options.scripts?.send(encodeAttempt(report), report);
        return verdict === undefined || verdict === null ? NONE : [verdict];
      }
      case "step":
      case "step.retrying":
      case "step.failed":
      case "child":
      case "noted":
      case "published":
        assert(false, "an AMQP worker refuses steps before they run");
    }
  }

  /** Answers a roll call: lists the attempts of a task queue that this worker holds. */
  answerRollCall(asked: ProcessMessage, by: { readonly worker: string; readonly consumes: boolean }): void {
    const { roll_call, token, task_queue, finished_queue: key } = asked;
    if (roll_call === undefined || token === undefined) return;
    const held = this.#options.held.idsOf(task_queue);
    // The list would be too long for an answer. A shorter list is not sent either, because the engine counts attempts that are
    // missing in it as lost.
    if (held.length > ROLL_CALL_HELD_MAX) return;
    const answer: RollCallMessage = { roll_call, task_queue, token, ...by, held };
    const body = Buffer.from(JSON.stringify(answer));
    this.#publish({ key, id: `roll-call~${roll_call}~${task_queue}`, body });
  }

  /** Publishes the receipt of an attempt again, after the delivery of the attempt was lost. */
  again(held: Held, body: Buffer): void {
    this.#publishReceipt(held, body, () => {});
  }

  /**
   * Publishes an enumeration again, with a higher count of deliveries, because its worker ended without a receipt. After
   * DELIVERIES_MAX deliveries the enumeration counts as crashed.
   */
  passOn(held: HeldEnumeration, queue: string): void {
    const { enumerated } = this.#options;
    const { content, properties } = held.delivery.message;
    const known = Number(properties.headers?.[DELIVERIES] ?? 1);
    const deliveries = (Number.isSafeInteger(known) ? known : 1) + 1;
    const id = `${held.id}~${deliveries}`;
    const done = (isRouted: boolean): void => (isRouted ? held.delivery.ack() : held.delivery.nack());
    if (deliveries > DELIVERIES_MAX) {
      const message = `${DELIVERIES_MAX} workers took the enumeration and ended without a receipt`;
      const payload = JSON.stringify({ name: "Crashed", code: "crashed", message });
      const body = enumeratedBody(held, { status: "crashed", payload });
      return this.#publish({ key: enumerated, id, body, done });
    }
    const { expiration } = properties;
    this.#publish({
      ...{ key: queue, id, body: content, headers: { [DELIVERIES]: deliveries }, done },
      ...(typeof expiration === "string" ? { expirationMs: Number(expiration) } : {}),
    });
  }

  #receipts(report: Extract<Report, { kind: "receipts" }>): Promise<Verdicts> {
    return new Promise((resolve) => {
      let open = report.receipts.length;
      const sent = (): void => {
        if (--open === 0) resolve(NONE);
      };
      for (const { task, attempt, claim, ms, outcome } of report.receipts) {
        const held = this.#options.held.get({ ...report, task, attempt, claim });
        if (held === undefined || held.kind === "enumeration") sent();
        else if (held.kind === "task") this.#finish(held, finishedBody(held, outcome, ms), sent);
        else this.#receipt(held, outcome, sent);
      }
    });
  }

  /** Publishes the receipt of a task. The receipt of a script follows after the script's reports. */
  #finish(held: HeldTask, body: Buffer, sent: () => void): void {
    const { scripts, onBug } = this.#options;
    if (scripts === null) this.#publishReceipt(held, body, sent);
    else
      scripts
        .end(held.id)
        .then(() => this.#publishReceipt(held, body, sent))
        .catch(onBug);
  }

  /**
   * Publishes the receipt of a command. A command whose attempt was cancelled gets no receipt: the command returns to its
   * topic, unless the engine cancelled it.
   */
  #receipt(held: HeldCommand, outcome: Outcome, sent: () => void): void {
    if (outcome.status !== "cancelled") {
      this.#publishReceipt(held, receiptBody(held, outcome), sent);
      return;
    }
    const { held: all, cancelled } = this.#options;
    if (cancelled.has(held.at)) all.discard(held);
    else all.giveBack(held);
    sent();
  }

  #end(report: Extract<Report, { kind: "enumeration" }>): Promise<Verdicts> {
    const { attempt, claim, outcome } = report;
    const held = this.#options.held.get({ ...report, task: -1, attempt, claim });
    if (held?.kind !== "enumeration") return Promise.resolve(NONE);
    return new Promise((resolve) =>
      this.#publishReceipt(held, enumeratedBody(held, outcome), () => resolve(NONE)),
    );
  }

  /**
   * Publishes the receipts that processes left in the spool when they ended. The broker may deliver the attempts of these
   * receipts to this worker again.
   */
  publishLeft(): void {
    const { spool, held } = this.#options;
    for (const { id, queue, body } of spool?.left ?? []) {
      const at = decodeAttempt(id);
      if (at !== null && !isForeign(at)) held.keep(id, body);
      this.#publish({ key: queue, id, body, done: () => spool?.confirmed(id) });
    }
  }

  #publishReceipt(held: Held, body: Buffer, sent: () => void): void {
    const { held: all, enumerated, spool } = this.#options;
    const done = (isRouted: boolean): void => {
      spool?.confirmed(held.id);
      if (isRouted) all.release(held, body);
      // The receipt queue does not exist. Either the visit is over, or the task will be delivered again, and the next worker
      // sends the receipt.
      else all.giveBack(held);
      sent();
    };
    const key =
      held.kind === "task" ? held.finishedQueue : held.kind === "command" ? held.receiptTopic : enumerated;
    const publish = (): void => this.#publish({ key, id: held.id, body, done });
    if (spool === null) publish();
    else spool.add({ id: held.id, queue: key, body }, publish);
  }

  #page(page: PageReport): Promise<Verdicts> {
    const held = this.#options.held.get({ ...page, task: -1 });
    if (held?.kind !== "enumeration") return Promise.resolve(["gone"]);
    return new Promise((resolve) =>
      this.#publish({
        key: held.message.task_queue,
        id: `${held.id}/${page.from}`,
        body: intakeBody(held, page),
        done: (isRouted) => resolve([isRouted ? "accepted" : "gone"]),
      }),
    );
  }

  /**
   * Publishes a message. If no queue accepted it, it is published again, because the engine declares the queues of a visit
   * again after a loss.
   */
  #publish(message: Outgoing): void {
    this.#options.publisher.publish({ ...message, mandatory: true, retryUnrouted: true });
  }
}

function finishedBody({ at, id, token }: HeldTask, outcome: Outcome, ms: number): Buffer {
  assert(
    outcome.status !== "suspended" && outcome.status !== "exception",
    "an attempt of an AMQP worker never suspends",
  );
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
  if (outcome.status !== "done") return Buffer.from(text);
  const adds = outcome.adds === undefined ? "" : `,"adds":${itemsText(outcome.adds)}`;
  // The result is JSON text already, so it is inserted without encoding.
  return Buffer.from(`${text.slice(0, -1)},"result":${outcome.payload}${adds}}`);
}

/** Writes tasks with their keys and identities as JSON text. */
function itemsText({ tasks, keys, identities, afters = null }: Items): string {
  const items = tasks.map((data, i) => {
    const key = keys === null ? "" : `,"key":${JSON.stringify(keys[i])}`;
    const identity = identities === null ? "" : `,"identity":${JSON.stringify(identities[i])}`;
    const after = afters === null ? "" : `,"after":${JSON.stringify(afters[i])}`;
    return `{"data":${data}${key}${identity}${after}}`;
  });
  return `[${items.join(",")}]`;
}

/** Makes the body of a command's receipt: the command itself, with its result or error added. */
function receiptBody({ command }: HeldCommand, outcome: Outcome): Buffer {
  const { cmd_result: _, proc_err: __, ...cmd } = command;
  if (outcome.status !== "done") return Buffer.from(JSON.stringify({ ...cmd, proc_err: errorOf(outcome) }));
  return Buffer.from(`${JSON.stringify(cmd).slice(0, -1)},"cmd_result":${outcome.payload}}`);
}

/** Makes the body of a page of tasks. A page is one message, because a message for each task would cost more than the task. */
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
  return Buffer.from(`${JSON.stringify(head).slice(0, -1)},"items":${itemsText(page)}}`);
}

function enumeratedBody({ message, id }: HeldEnumeration, outcome: EnumerationOutcome): Buffer {
  const { workflow_id, phase, handler, task_queue, finished_queue, token } = message;
  const { status } = outcome;
  assert(status !== "suspended" && status !== "exception", "an attempt of an AMQP worker never suspends");
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
