/** The kinds of documents that an export contains. The store port cannot list kinds, so this file lists them; a test checks the list. */
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

/** The kinds of documents that an export leaves out, because they describe the owner of a store and not its content. */
export const OWNER_KINDS = ["permits", "cluster-secret", "leases"] as const;
