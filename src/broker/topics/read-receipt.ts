/**
 * Reads receipts of commands. A message is a receipt only if it says how the command ended: by `cmd_result`, a `proc_err` that
 * is not null, or the `status` of Rondo's own workers. All other messages go to the dead-letter queue with the reason.
 */
import type { EnginePort } from "../../engine/engine-port.ts";
import { LIMITS } from "../../kernel/definition/definition.ts";
import type { Outcome } from "../../kernel/message.ts";
import { BrokerFault, toFault } from "../../net/amqp/broker-fault.ts";
import type { Delivery } from "../../net/amqp/delivery.ts";
import { readFields } from "../../protocol/read-body.ts";
import type { ReportedAttempt } from "../../protocol/work.ts";
import { type Fields, fieldsOf } from "../../std/decode.ts";
import { toStoredText } from "../../std/json.ts";
import { isRejection, type Rejection, reject } from "../../std/rejection.ts";
import type { BridgeParts } from "../bridge-parts.ts";
import { isStatus, notStorable, readAttempt, readError } from "../read-message.ts";
import type { ReceiptInbox } from "../visits/receipt-inbox.ts";

/**
 * Reads `cmd_metadata.rondo` of a receipt, the mark that Rondo has put into the command; null if the receipt has none. Rejects a mark
 * that is not an object.
 */
export function readReceiptMark(fields: Fields): { readonly mark: Fields | null } | Rejection {
  const metadata = fields["cmd_metadata"];
  const mark = fieldsOf(metadata)?.["rondo"] ?? null;
  if (mark === null || fieldsOf(mark) !== null) return { mark: fieldsOf(mark) };
  return reject(
    "invalid_input",
    "`cmd_metadata.rondo` is not an object: the receipt must repeat the value of the command unchanged",
  );
}

/** Reads how the command ended. Returns a rejection if the message is not a receipt. */
export function readReceipt(fields: Fields): Outcome | Rejection {
  const { cmd_result, proc_err, status } = fields;
  // Any value of `proc_err` except null means that the command failed, even "", 0 and false.
  if (/* @plant empty proc_err counts as success 2 */ proc_err !== undefined && proc_err !== null)
    // @plant empty proc_err counts as success
    return { status: "failed", ...readProcErr(proc_err) };
  if (cmd_result === undefined) {
    // @plant command counts as its own receipt
    if (!isStatus(status))
      return reject(
        "invalid_input",
        "the message is not a receipt: it has neither `cmd_result` nor `proc_err`",
      );
    if (status !== "done") return { status, ...readError(undefined, `the command ended as ${status}`) };
  }
  const payload = toStoredText(cmd_result ?? {}, { bytesMax: LIMITS.resultBytes, what: "cmd_result" });
  return isRejection(payload) ? notStorable(payload) : { status: "done", payload };
}

/**
 * Reads the error of a receipt. An error that is not an object is also kept unchanged as `proc_err`, for readers of the command's
 * document.
 */
function readProcErr(procErr: unknown): Pick<Outcome, "payload" | "fatal" | "retryAfterMs"> {
  const text = toStoredText(procErr, { bytesMax: LIMITS.resultBytes, what: "proc_err" });
  if (isRejection(text)) return readError(text.message, FAILED);
  if (typeof procErr === "object") return readError(procErr, FAILED);
  const { payload } = readError(
    procErr === "" ? `${FAILED}; its \`proc_err\` is an empty string` : procErr,
    FAILED,
  );
  const shown = typeof procErr === "string" ? procErr.slice(0, LIMITS.errorChars).toWellFormed() : procErr;
  return { payload: JSON.stringify({ ...(JSON.parse(payload) as object), proc_err: shown }) };
}

const FAILED = "the command failed";

export interface ReceiptIntakeParts extends Pick<BridgeParts, "engine" | "dead" | "onFault"> {
  readonly inbox: ReceiptInbox;
  readonly findCommand: FindCommand;
}

/**
 * Finds the one open command to which a receipt without `cmd_metadata.rondo` can belong, by its hashes and its topic. Otherwise returns a
 * rejection with the reason.
 */
export type FindCommand = (
  receipt: Readonly<Record<string, unknown>>,
  topic: string,
) => Promise<ReportedAttempt | Rejection>;

/** Reads a message from a receipt topic. Calls `onReceipt` with the attempt and its outcome, or puts the message into the dead letters. */
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
      dead.put(
        delivery,
        "`rondo.step` differs from the step of the command's attempt: the receipt must repeat `rondo` unchanged",
      );
    else onReceipt(at, outcome);
  };
  const known = engine.holderOf(at)?.step;
  if (step === undefined || known !== undefined) return compare(known ?? null);
  stepOf(engine, at).then(compare, later);
}

/** Returns the step of an attempt for which this node has no lease; null if the execution has no such command. */
async function stepOf(
  engine: EnginePort,
  { execution, phase, handler }: ReportedAttempt,
): Promise<number | null> {
  const found = await engine.inspect(execution);
  if (!isRejection(found))
    return found.commands?.find((one) => one.phase === phase && one.handler === handler)?.step ?? null;
  if (found.code === "not_found") return null;
  throw new BrokerFault(
    `a receipt for the execution ${execution} cannot be checked now and is read again later: ${found.message}`,
  );
}
