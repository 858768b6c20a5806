/**
 * The short messages of the first two source documents: `finished` and `enumerated` without attempt, token, task and total, and
 * bare tasks, which are the whole body of a message in the intake. They count only with the setting `shortMessages`, because they promise less:
 * 1. Nothing proves the sender: who may publish to the queue may end a task.
 * 2. A short `finished` ends the open task with the lowest number, as done. A repeated message ends another task, so a handler can
 *    finish early. The result is `result`, or null.
 * 3. A short `enumerated` ends an enumeration with the tasks that have come, once its intake stays empty. A lost task is not noticed.
 * 4. Bare tasks are numbered in the order of their arrival. A bare task that is sent or delivered twice is two tasks.
 */
import { LIMITS } from "../../kernel/definition/definition.ts";
import { decodeAttempt, encodeAttempt } from "../../protocol/attempt-id.ts";
import { invalid } from "../../protocol/read-body.ts";
import type { ReportedAttempt } from "../../protocol/work.ts";
import type { Fields } from "../../std/decode.ts";
import { toStoredText } from "../../std/json.ts";
import { isRejection, type Rejection } from "../../std/rejection.ts";
import type { BridgeParts } from "../bridge-parts.ts";
import type { VisitPlace } from "../names.ts";
import { notStorable, type TaskReport } from "../read-message.ts";

const OPEN_MAX = 100_000;

/** Whether a message has neither attempt nor token, and so is a short one. */
export function isShort(fields: Fields): boolean {
  return fields["attempt"] === undefined && fields["token"] === undefined;
}

/**
 * Whether a message in the intake is a bare task: it is no JSON object, or names neither a position nor this execution nor this
 * attempt. Broken JSON is no task.
 */
export function isBareTask(fields: Fields | Rejection, at: VisitPlace, attempt: string): boolean {
  if (isRejection(fields)) return fields.code === "invalid_input";
  return (
    fields["position"] === undefined &&
    fields["workflow_id"] !== at.execution &&
    fields["attempt"] !== attempt
  );
}

/** Whether a short message is about this handler. */
export function isAbout(fields: Fields, { execution, phase, handler }: VisitPlace): boolean {
  return fields["workflow_id"] === execution && fields["phase"] === phase && fields["handler"] === handler;
}

/** Chooses the tasks that short `finished` messages end. */
export class ShortReceipts {
  readonly #parts: Pick<BridgeParts, "engine" | "worker">;
  /** Ids of attempts that a message in progress ends. */
  readonly #chosen = new Set<string>();

  constructor(parts: Pick<BridgeParts, "engine" | "worker">) {
    this.#parts = parts;
  }

  /** Makes the receipt of the open task with the lowest number, or returns why there is none. */
  read(fields: Fields, place: VisitPlace): TaskReport | Rejection {
    if (!isAbout(fields, place))
      return invalid("`workflow_id`, `phase` and `handler` are not those of the queue");
    const status = fields["status"];
    if ((status !== undefined && status !== "done") || (fields["error"] ?? null) !== null)
      return invalid("a short message cannot report a failure: send `attempt` and `token` with it");
    if (fields["task"] !== undefined)
      return invalid("a short message cannot name its task: send `attempt` and `token` with it");
    const { engine, worker } = this.#parts;
    const [first] = engine
      .openAttempts({ worker, execution: place.execution, max: OPEN_MAX })
      .filter(
        (open) =>
          open.phase === place.phase &&
          open.visit === place.visit &&
          open.handler === place.handler &&
          open.task >= 0 &&
          !this.#chosen.has(open.attempt),
      )
      .sort((a, b) => a.task - b.task);
    const at = first === undefined ? null : decodeAttempt(first.attempt);
    if (first === undefined || at === null) return invalid("no task of this handler is open");
    this.#chosen.add(first.attempt);
    const payload = toStoredText(fields["result"], { bytesMax: LIMITS.resultBytes, what: "result" });
    const outcome = isRejection(payload) ? notStorable(payload) : ({ status: "done", payload } as const);
    return { at, ms: 0, outcome };
  }

  /** Called when the message that ended the attempt is settled, or will be delivered again. */
  settled(at: ReportedAttempt): void {
    if (this.#chosen.size > 0) this.#chosen.delete(encodeAttempt(at));
  }
}
