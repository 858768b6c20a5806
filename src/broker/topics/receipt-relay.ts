/**
 * Messages of the exchange of receipts. Rondo consumes the receipt topics, so other readers get each receipt that counted
 * from this exchange: from the journal, after its commit, at least once, under a stable id, and without the token.
 */

import { procErr } from "../../kernel/command/command-state.ts";
import { encodeName } from "../../kernel/definition/names.ts";
import type { Plan } from "../../kernel/definition/plan.ts";
import type { CommandReceipted } from "../../kernel/event.ts";
import type { Outgoing } from "../../net/amqp/publisher.ts";
import { defined } from "../../std/defined.ts";
import type { Json } from "../../std/json.ts";
import type { BrokerNames } from "../names.ts";

/** The message of a receipt; null: the plan has no such command. */
export function receiptMessage(
  names: BrokerNames,
  { execution, seq, plan }: { readonly execution: string; readonly seq: number; readonly plan: Plan },
  event: CommandReceipted,
): Outgoing | null {
  const command = plan.commands[event.step]?.command;
  if (command === undefined) return null;
  const { cmd_type, cmd_data, cmd_metadata } = command.cmd;
  const { step, task, attempt, attemptId: attempt_id, result, error, procStatus: proc_status } = event;
  const body = {
    cmd_type,
    cmd_data,
    cmd_metadata: {
      ...cmd_metadata,
      rondo: { workflow_id: execution, step, task, attempt, ...defined({ attempt_id }) },
    },
    ...(result === null ? { proc_err: procErr(error) } : { cmd_result: JSON.parse(result) as Json }),
    proc_status,
    target_topic_name: command.topic,
    receipt_topic_name: command.receiptTopic,
  };
  return {
    exchange: names.receipts,
    key: command.receiptTopic,
    // The broker routes it by this second key as well.
    headers: { CC: [command.topic] },
    id: `${encodeName(execution)}/${seq}~receipt`,
    body: Buffer.from(JSON.stringify(body)),
  };
}
