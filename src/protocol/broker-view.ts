export type LinkState = "connecting" | "up" | "blocked" | "down" | "closed";

/** How the broker stands, for those who look. */
export interface BrokerView {
  readonly state: LinkState;
  /** What is wrong; null: nothing. */
  readonly fault: string | null;
  readonly prefix: string;
  /** Handlers of visits that have queues. */
  readonly queues: number;
  /** Messages published and not confirmed, and confirmed since the start. */
  readonly unconfirmed: number;
  readonly published: number;
  /** Last words of workers that counted, and messages that nobody could use, since the start. */
  readonly counted: number;
  readonly deadLetters: number;
}
