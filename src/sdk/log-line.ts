/** A line that a handler logs, at the moment when it is logged. */
export interface LogLine {
  /** The id of the execution. */
  readonly execution: string;
  /** The name of the phase. */
  readonly phase: string;
  /** The name of the handler. */
  readonly handler: string;
  /** The number of the task; -1 is the enumeration. */
  readonly task: number;
  /** The number of the attempt. */
  readonly attempt: number;
  /** The unique id of the attempt. */
  readonly attemptId: string;
  /** `debug`, `info`, `warn` or `error`. */
  readonly level: string;
  /** The values that were logged. */
  readonly parts: readonly unknown[];
}
