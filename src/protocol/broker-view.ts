export type LinkState = "connecting" | "up" | "blocked" | "down" | "closed";

/** The state of the connection to the broker, for `/readyz`, metrics and the dashboard. */
export interface BrokerView {
  readonly state: LinkState;
  /** Why the connection is down or blocked; null if it is neither. */
  readonly fault: string | null;
  readonly prefix: string;
  /** The number of handlers of visits that have queues at the broker. */
  readonly queues: number;
  /** The number of unconfirmed messages, and of messages confirmed since the start. */
  readonly unconfirmed: number;
  readonly published: number;
  /** The number of receipts that the engine counted, and of messages moved to the dead-letter queue, since the start. */
  readonly counted: number;
  readonly deadLetters: number;
}
