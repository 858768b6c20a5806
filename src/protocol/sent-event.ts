/** The answer to an event that was sent, in process and over HTTP. */

/** An execution that an event starts, signals or cancels. */
export interface EventTarget {
  /** The workflow of the trigger. */
  readonly workflow: string;
  /**
   * The id of the execution. Missing if the event is held by a gate, which decides later.
   */
  readonly execution?: string;
  /** `start`, `signal`, `cancel`; `held` if a debounce, batch, throttle or singleton decides. */
  readonly action: "start" | "signal" | "cancel" | "held";
}

/** A trigger that an event does not match. */
export interface RefusedTrigger {
  /** The workflow of the trigger. */
  readonly workflow: string;
  /** Why the trigger did nothing. */
  readonly reason: string;
}

/** The answer to an event that was sent. */
export interface SentEvent {
  /** The id of the event. */
  readonly id: string;
  /** Whether an event with this id was sent before. Then this is the answer to the first one. */
  readonly repeated: boolean;
  /** The effects of the event, one entry for each trigger. */
  readonly targets: readonly EventTarget[];
  /** The triggers that the event does not match. */
  readonly refused: readonly RefusedTrigger[];
}
