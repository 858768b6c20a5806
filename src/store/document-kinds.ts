/** The kinds of documents that an export contains. The port cannot list kinds, so they are listed here; a test checks the list. */
export const DOCUMENT_KINDS = [
  "alert",
  "alert-mark",
  "alert-rule",
  "amqp-intakes",
  "amqp-queues",
  "amqp-topics",
  "audit",
  "command-workflow",
  "ended-session",
  "event",
  "event-unmatched",
  "figures",
  "idempotency-key",
  "paused-queue",
  "replaced-definition",
  "schedule",
  "schedule-mark",
  "setting",
  "signal-place",
  "state",
  "token",
  "topic",
  "trigger",
  "undelivered",
  "workflow-version",
] as const;

/** Kinds of documents about the owner of a store, not about its content: an export leaves them out. */
export const OWNER_KINDS = ["permits", "cluster-secret", "leases"] as const;
