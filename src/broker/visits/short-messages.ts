/**
 * Short messages are a simple form of workers' messages: `finished` and `enumerated` without attempt, token, task and total, and bare
 * tasks, each of which is the whole body of a message in the intake. They are accepted only with the setting `shortMessages`, because
 * they are less safe:
 * 1. Nothing proves who the sender is: whoever may publish to the queue can end a task.
 * 2. A short `finished` ends the open task with the lowest number, as done. If the message is sent twice, it ends two tasks, so a handler
 *    can finish too early. The task's result is the field `result`, or null.
 * 3. A short `enumerated` ends an enumeration with the tasks that have arrived, once its intake stays empty. A lost task is not noticed.
 * 4. Bare tasks are numbered in the order of their arrival. A bare task that is sent or delivered twice counts as two tasks.
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

/** Whether a message is a short one: it has neither attempt nor token. */
export function isShort(fields: Fields): boolean {
  return fields["attempt"] === undefined && fields["token"] === undefined;
}

/**
 * Whether a message in the intake is a bare task: it is not a JSON object, or it is one without a position that names neither this
 * execution nor this attempt. Invalid JSON is not a task.
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
  /** Ids of attempts that are being ended by a message that was not acknowledged yet. */
  readonly #chosen = new Set<string>();

  constructor(parts: Pick<BridgeParts, "engine" | "worker">) {
    this.#parts = parts;
  }

  /** Makes a `done` receipt for the open task with the lowest number. Returns a rejection if no task is open or the message says more. */
  read(fields: Fields, place: VisitPlace): TaskReport | Rejection {
    if (!isAbout(fields, place))
      return invalid(
        "`workflow_id`, `phase` and `handler` differ from those of the handler whose queue this is",
      );
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
    if (first === undefined || at === null)
      return invalid("no task of this handler is open, so there is nothing to finish");
    this.#chosen.add(first.attempt);
    const payload = toStoredText(fields["result"], { bytesMax: LIMITS.resultBytes, what: "result" });
    const outcome = isRejection(payload) ? notStorable(payload) : ({ status: "done", payload } as const);
    return { at, ms: 0, outcome };
  }

  /** Called when the message that ended the attempt is acknowledged, or will be delivered again. */
  settled(at: ReportedAttempt): void {
    if (this.#chosen.size > 0) this.#chosen.delete(encodeAttempt(at));
  }
}
