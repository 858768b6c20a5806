/** The numbers by which the engine's side of the broker runs. */
export interface BrokerSettings {
  /** Published and unsettled tasks per queue. */
  readonly tasksPerQueue: number;
  /** Handlers of visits that have queues at once. */
  readonly queuesMax: number;
  /** Redeliveries after which a task goes alone. */
  readonly deliveryLimit: number;
  /** How often `process` is said again while a visit is open. */
  readonly broadcastMs: number;
  /** How often queues are looked at. */
  readonly lookMs: number;
  /** Tasks that were taken and not heard of for so long are published again; doubled each time, so often at most. */
  readonly silenceMs: number;
  readonly silencesMax: number;
  /** How long queues of a visit outlive whoever made them, and messages wait in them. */
  readonly expiresMs: number;
  readonly messageMs: number;
  /** Deliveries that a consumer has at a time. */
  readonly prefetch: number;
  /** Messages that are not confirmed, beyond which no more work is taken. */
  readonly unconfirmedMax: number;
  /** How long the broker may take to answer before it, or a queue, is taken for broken. */
  readonly answerMs: number;
}

export const DEFAULT_BROKER_SETTINGS: BrokerSettings = {
  tasksPerQueue: 1_000,
  queuesMax: 500,
  deliveryLimit: 4,
  broadcastMs: 5_000,
  lookMs: 5_000,
  silenceMs: 300_000,
  silencesMax: 5,
  expiresMs: 86_400_000,
  messageMs: 43_200_000,
  prefetch: 500,
  unconfirmedMax: 10_000,
  answerMs: 20_000,
};
