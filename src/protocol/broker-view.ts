export type LinkState = "connecting" | "up" | "blocked" | "down" | "closed";

/** The state of the connection to the broker, for `/readyz`, metrics and the dashboard. */
export interface BrokerView {
  readonly state: LinkState;
  /** Why the connection is down or blocked; null: it is not. */
  readonly fault: string | null;
  readonly prefix: string;
  /** The number of handlers of visits that have queues at the broker. */
  readonly queues: number;
  /** Unconfirmed messages, and messages confirmed since the start. */
  readonly unconfirmed: number;
  readonly published: number;
  /** Receipts that counted, and messages that became dead letters, since the start. */
  readonly counted: number;
  readonly deadLetters: number;
}
