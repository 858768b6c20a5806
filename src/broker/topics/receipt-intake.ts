/**
 * Tells which command a message on a receipt topic is the receipt of, and how that ended. What is no receipt, or of no
 * command that can be told, goes to the dead letters with the reason.
 */
import type { EnginePort } from "../../engine/engine-port.ts";
import type { Outcome } from "../../kernel/message.ts";
import { readFields } from "../../protocol/read-body.ts";
import type { ReportedAttempt } from "../../protocol/work.ts";
import { isRejection, type Rejection } from "../../std/rejection.ts";
import { BrokerFault, toFault } from "../broker-fault.ts";
import { readAttempt } from "../read-message.ts";
import type { Delivery, ReceiptInbox } from "../visits/receipt-inbox.ts";
import { readReceipt, readReceiptMark } from "./read-receipt.ts";

export interface ReceiptIntakeParts {
  readonly engine: EnginePort;
  readonly words: ReceiptInbox;
  readonly findCommand: FindCommand;
  readonly onFault: (fault: Error) => void;
}

/** Gives the one open command that a receipt without a mark can be of, by its hashes and the topic it came on; or says why not. */
export type FindCommand = (
  receipt: Readonly<Record<string, unknown>>,
  topic: string,
) => Promise<ReportedAttempt | Rejection>;

/** Calls `take` with the attempt and its outcome, now or once they are known; refuses what is no receipt. */
export function readDelivery(
  parts: ReceiptIntakeParts,
  delivery: Delivery,
  take: (at: ReportedAttempt, outcome: Outcome) => void,
): void {
  const { words, engine, onFault, findCommand } = parts;
  const fields = readFields(delivery.message.content);
  if (isRejection(fields)) return words.refuse(delivery, fields.message);
  const outcome = readReceipt(fields);
  if (isRejection(outcome)) return words.refuse(delivery, outcome.message);
  const later = (thrown: unknown): void => {
    onFault(thrown instanceof Error ? thrown : toFault(thrown));
    words.later(delivery, () => readDelivery(parts, delivery, take));
  };
  const read = readReceiptMark(fields);
  if (isRejection(read)) return words.refuse(delivery, read.message);
  const { mark } = read;
  if (mark === null) {
    findCommand(fields, delivery.queue).then((at) => {
      if (isRejection(at)) words.refuse(delivery, at.message);
      else take(at, outcome);
    }, later);
    return;
  }
  const { workflow_id, attempt, token, step } = mark;
  const at = readAttempt({ workflow_id, attempt, token }, engine.info.key);
  if (isRejection(at)) return words.refuse(delivery, at.message);
  const judge = (own: number | null): void => {
    if (step !== undefined && own !== null && step !== own)
      words.refuse(delivery, "`rondo.step` is not the step of the attempt: send `rondo` back unchanged");
    else take(at, outcome);
  };
  const known = engine.holderOf(at)?.step;
  if (step === undefined || known !== undefined) return judge(known ?? null);
  stepOf(engine, at).then(judge, later);
}

/** Which command of its workflow an attempt is at that this node has no lease of; null: nobody knows of it. */
async function stepOf(
  engine: EnginePort,
  { execution, phase, handler }: ReportedAttempt,
): Promise<number | null> {
  const found = await engine.inspect(execution);
  if (!isRejection(found))
    return found.commands?.find((one) => one.phase === phase && one.handler === handler)?.step ?? null;
  if (found.code === "not_found") return null;
  throw new BrokerFault(`a receipt of ${execution} waits: ${found.message}`);
}
