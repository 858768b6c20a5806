/**
 * Finds the command that a message on a receipt topic is the receipt of, and its outcome. A message that is no receipt, or
 * has no command, goes to the dead-letter queue with the reason.
 */

import type { EnginePort } from "../../engine/engine-port.ts";
import type { Outcome } from "../../kernel/message.ts";
import { BrokerFault, toFault } from "../../net/amqp/broker-fault.ts";
import type { Delivery } from "../../net/amqp/delivery.ts";
import { readFields } from "../../protocol/read-body.ts";
import type { ReportedAttempt } from "../../protocol/work.ts";
import { isRejection, type Rejection } from "../../std/rejection.ts";
import type { BridgeParts } from "../bridge-parts.ts";
import { readAttempt } from "../read-message.ts";
import type { ReceiptInbox } from "../visits/receipt-inbox.ts";
import { readReceipt, readReceiptMark } from "./read-receipt.ts";

export interface ReceiptIntakeParts extends Pick<BridgeParts, "engine" | "dead" | "onFault"> {
  readonly inbox: ReceiptInbox;
  readonly findCommand: FindCommand;
}

/** Finds the one open command that a receipt without a mark can be of, by its hashes and its topic; or the reason why not. */
export type FindCommand = (
  receipt: Readonly<Record<string, unknown>>,
  topic: string,
) => Promise<ReportedAttempt | Rejection>;

/** Calls `onReceipt` with the attempt and its outcome, once they are known. */
export function readDelivery(
  parts: ReceiptIntakeParts,
  delivery: Delivery,
  onReceipt: (at: ReportedAttempt, outcome: Outcome) => void,
): void {
  const { inbox, dead, engine, onFault, findCommand } = parts;
  const fields = readFields(delivery.message.content);
  if (isRejection(fields)) return dead.put(delivery, fields.message);
  const outcome = readReceipt(fields);
  if (isRejection(outcome)) return dead.put(delivery, outcome.message);
  const later = (thrown: unknown): void => {
    onFault(thrown instanceof Error ? thrown : toFault(thrown));
    inbox.retryLater(delivery, () => readDelivery(parts, delivery, onReceipt));
  };
  const read = readReceiptMark(fields);
  if (isRejection(read)) return dead.put(delivery, read.message);
  const { mark } = read;
  if (mark === null) {
    findCommand(fields, delivery.queue).then((at) => {
      if (isRejection(at)) dead.put(delivery, at.message);
      else onReceipt(at, outcome);
    }, later);
    return;
  }
  const { workflow_id, attempt, token, step } = mark;
  const at = readAttempt({ workflow_id, attempt, token }, engine.info.key);
  if (isRejection(at)) return dead.put(delivery, at.message);
  const compare = (own: number | null): void => {
    if (step !== undefined && own !== null && step !== own)
      dead.put(delivery, "`rondo.step` is not the step of the attempt: send `rondo` back unchanged");
    else onReceipt(at, outcome);
  };
  const known = engine.holderOf(at)?.step;
  if (step === undefined || known !== undefined) return compare(known ?? null);
  stepOf(engine, at).then(compare, later);
}

/** The step of an attempt that this node has no lease of; null: its execution has no such command. */
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
