/**
 * Receipts of commands as messages. A simulated worker writes them as a worker in any language does, and the broker's reader
 * decodes them (broker/topics/read-receipt.ts). Some workers also send the command itself back, which is no receipt, and some
 * write an error without a message.
 */
import { readReceipt } from "../../../src/broker/topics/read-receipt.ts";
import type { Outcome } from "../../../src/kernel/message.ts";
import type { Grant, GrantItem } from "../../../src/protocol/work.ts";
import type { Json } from "../../../src/std/json.ts";
import { hashText } from "../../../src/std/random.ts";
import { isRejection } from "../../../src/std/rejection.ts";

/** The outcome that the reader decodes from the receipt of an attempt. */
export function readSimReceipt(grant: Grant, item: GrantItem, outcome: Outcome, seed: number): Outcome {
  const command = JSON.parse(item.task ?? "{}") as Record<string, Json>;
  const drawn = hashText(
    `${seed}/receipt/${grant.execution}/${grant.handler}/${item.number}/${item.attempt}`,
  );
  const echo = drawn % 2 === 0 ? readReceipt(command) : null;
  if (echo !== null && !isRejection(echo)) return echo;
  if (outcome.status === "done") {
    const read = readReceipt({ ...command, cmd_result: JSON.parse(outcome.payload) as Json });
    return isRejection(read) ? { status: "failed", payload: "null" } : read;
  }
  if (outcome.status !== "failed" || drawn % 4 > 1) return outcome;
  const read = readReceipt({ ...command, proc_err: "" });
  // An error keeps what the code threw, with its policy.
  return isRejection(read) || read.status === "failed" ? outcome : read;
}
