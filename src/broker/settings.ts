/** Settings of the engine's side of the broker. */
export interface BrokerSettings {
  /** The most published tasks without a receipt in each task queue. */
  readonly tasksPerQueue: number;
  /** The most visits' handlers that may have queues at the same time. */
  readonly queuesMax: number;
  /** The number of redeliveries after which a task goes to the queue of lone tasks. */
  readonly deliveryLimit: number;
  /** How often the bridge announces the queues of an open visit to workers again (the message `process`). */
  readonly broadcastMs: number;
  /** How often the bridge checks the state of its queues at the broker. */
  readonly lookMs: number;
  /**
   * After this time without any receipt, the tasks of a queue are published again. The time doubles after each repetition. There are at
   * most `silencesMax` repetitions.
   */
  readonly silenceMs: number;
  readonly silencesMax: number;
  /**
   * How long a visit's queue may be unused (`expiresMs`), and how long a message may wait in it (`messageMs`), before the broker deletes
   * the queue or the message.
   */
  readonly expiresMs: number;
  readonly messageMs: number;
  /** The most unacknowledged deliveries of a consumer. */
  readonly prefetch: number;
  /** The most messages that the broker has not confirmed; beyond that, the bridge claims no work. */
  readonly unconfirmedMax: number;
  /** How long the broker may take to answer before a queue, or the connection, counts as broken. */
  readonly answerMs: number;
  /** Whether workers may send short messages, which have neither attempt nor token (visits/short-messages.ts). */
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
