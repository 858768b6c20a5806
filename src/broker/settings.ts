/** Settings of the engine's side of the broker. */
export interface BrokerSettings {
  /** The most published tasks without a receipt in each task queue. */
  readonly tasksPerQueue: number;
  /** The most handlers of visits that have queues at the same time. */
  readonly queuesMax: number;
  /** The number of redeliveries after which a task goes to the queue of lone tasks. */
  readonly deliveryLimit: number;
  /** How often the queues of an open visit are announced again (`process`). */
  readonly broadcastMs: number;
  /** How often the bridge checks its queues at the broker. */
  readonly lookMs: number;
  /**
   * After this time without any receipt, the tasks of a queue are published again. The time doubles each time, up to
   * `silencesMax` times.
   */
  readonly silenceMs: number;
  readonly silencesMax: number;
  /** How long unused queues of a visit exist, and how long messages wait in them, before the broker deletes them. */
  readonly expiresMs: number;
  readonly messageMs: number;
  /** The most unacknowledged deliveries of a consumer. */
  readonly prefetch: number;
  /** The most messages that the broker has not confirmed; beyond that, the bridge claims no work. */
  readonly unconfirmedMax: number;
  /** How long the broker may take to answer before a queue, or the connection, counts as broken. */
  readonly answerMs: number;
  /** Whether messages of workers may lack attempt and token (visits/short-messages.ts). */
  readonly shortMessages: boolean;
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
  shortMessages: false,
};
