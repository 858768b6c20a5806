/**
 * Names at the broker. Those that workers know besides are in protocol/amqp-wire.ts; those of one visit are made here
 * and told in messages. With the prefix `distribot` they are the names of the documents that this protocol comes from.
 */
import { createHash } from "node:crypto";
import { cutToBytes, isPlainId } from "../kernel/definition/names.ts";
import { amqpNames } from "../protocol/amqp-wire.ts";
import type { ReportedAttempt, ReportPlace } from "../protocol/work.ts";

/** Longest name of a queue or an exchange. */
const NAME_BYTES_MAX = 255;
/** The longest word that follows the place: the intake with its three numbers. */
const ENDING_MAX = 60;

/** The place of a handler of a visit: what its queues are named by. */
export type VisitPlace = Omit<ReportPlace, "epoch">;

export type BrokerNames = ReturnType<typeof brokerNames>;

/** All names under a prefix. */
export function brokerNames(prefix: string) {
  const desk = (at: VisitPlace): string => {
    const visit = `${at.visit > 1 ? `.v${at.visit}` : ""}${at.round > 1 ? `.r${at.round}` : ""}`;
    const rest = `.${at.phase}.${at.handler}${visit}`;
    const room = NAME_BYTES_MAX - ENDING_MAX - `${prefix}.workflow.`.length - rest.length;
    return `${prefix}.workflow.${shortened(at.execution, room)}${rest}`;
  };
  return {
    ...amqpNames(prefix),
    /** Where journaled tasks wait for workers. */
    tasks: (at: VisitPlace) => `${desk(at)}.tasks`,
    /** Where one task at a time waits that may have taken its worker down. */
    alone: (at: VisitPlace) => `${desk(at)}.alone.tasks`,
    finished: (at: VisitPlace) => `${desk(at)}.finished`,
    /** Where one attempt at an enumeration puts what it finds. */
    intake: (at: ReportedAttempt) => `${desk(at)}.tasks.in.${at.epoch}-${at.attempt}-${at.claim}`,
    ended: (execution: string) =>
      amqpNames(prefix).workflowFinished(shortened(execution, NAME_BYTES_MAX - prefix.length - 20)),
    /** The topic exchange for receipts that counted. */
    receipts: `${prefix}.receipts`,
    eventKey: (kind: string) => `${prefix}.${kind}`,
  };
}

/** The identity of a handler of a visit as one text. */
export function deskKey({ execution, phase, visit, handler, round }: VisitPlace): string {
  return `${execution}/${phase}/${visit}/${handler}/${round}`;
}

/** An id as a part of a queue's name: where it is too long, or has other characters, its hash stands for the rest. */
function shortened(id: string, max: number): string {
  if (id.length <= max && isPlainId(id)) return id;
  const hash = createHash("sha256").update(id).digest("hex").slice(0, 32);
  const begin = isPlainId(id) ? id : cutToBytes(id, max).replace(/[^A-Za-z0-9_:~-]/gu, "_");
  return `${begin.slice(0, max - hash.length - 1)}~${hash}`;
}
