/** Names of queues and exchanges at the broker that only the engine uses. protocol/amqp-wire.ts has the names that workers use too. */
import { cutToBytes, isPlainId } from "../kernel/definition/names.ts";
import { amqpNames } from "../protocol/amqp-wire.ts";
import type { ReportedAttempt, ReportPlace } from "../protocol/work.ts";
import { sha256 } from "../std/hash.ts";

const NAME_BYTES_MAX = 255;
/** The length of the longest suffix of a queue's name, in characters: the suffix of an intake queue with its three numbers. */
const ENDING_MAX = 60;

/** The handler of a visit for which queues are declared. Their names contain its fields. */
export type VisitPlace = Omit<ReportPlace, "epoch">;

export type BrokerNames = ReturnType<typeof brokerNames>;

export function brokerNames(prefix: string) {
  const base = (at: VisitPlace): string => {
    const visit = `${at.visit > 1 ? `.v${at.visit}` : ""}${at.round > 1 ? `.r${at.round}` : ""}`;
    const rest = `.${at.phase}.${at.handler}${visit}`;
    const room = NAME_BYTES_MAX - ENDING_MAX - `${prefix}.workflow.`.length - rest.length;
    return `${prefix}.workflow.${shortened(at.execution, room)}${rest}`;
  };
  return {
    prefix,
    ...amqpNames(prefix),
    /** Returns the name of the queue of journaled tasks. */
    tasks: (at: VisitPlace) => `${base(at)}.tasks`,
    /** Returns the name of the queue of lone tasks. These are delivered one at a time, because each may have crashed its worker. */
    alone: (at: VisitPlace) => `${base(at)}.alone.tasks`,
    finished: (at: VisitPlace) => `${base(at)}.finished`,
    /** Returns the name of the intake queue: the tasks that one attempt at an enumeration finds are sent there. */
    intake: (at: ReportedAttempt) => `${base(at)}.tasks.in.${at.epoch}-${at.attempt}-${at.claim}`,
    ended: (execution: string) =>
      amqpNames(prefix).workflowFinished(shortened(execution, NAME_BYTES_MAX - prefix.length - 20)),
    /** The topic exchange for receipts that the engine has counted. */
    receipts: `${prefix}.receipts`,
    eventKey: (kind: string) => `${prefix}.${kind}`,
  };
}

export function visitKey({ execution, phase, visit, handler, round }: VisitPlace): string {
  return `${execution}/${phase}/${visit}/${handler}/${round}`;
}

/**
 * Shortens an id for the name of a queue. If the id is too long or has characters that are not allowed, its end is replaced by its hash.
 */
function shortened(id: string, max: number): string {
  if (id.length <= max && isPlainId(id)) return id;
  const hash = sha256(id).slice(0, 32);
  const begin = isPlainId(id) ? id : cutToBytes(id, max).replace(/[^A-Za-z0-9_:~-]/gu, "_");
  return `${begin.slice(0, max - hash.length - 1)}~${hash}`;
}
