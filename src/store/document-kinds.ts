/**
 * Which documents move with a store. The port lists documents of a kind, not kinds, so they are named here; a test
 * compares this with the source.
 */
export const DOCUMENT_KINDS = [
  "amqp-intakes",
  "amqp-queues",
  "amqp-topics",
  "audit",
  "command-workflow",
  "ended-session",
  "idempotency-key",
  "replaced-definition",
  "schedule",
  "schedule-mark",
  "setting",
  "state",
  "token",
  "topic",
  "workflow-version",
] as const;

/** Kinds that say something of an owner of the store, not of its content: they stay where they are. */
export const OWNER_KINDS = ["permits", "cluster-secret", "leases"] as const;
