/** A line that a handler logs, at the moment when it is logged. */
export interface LogLine {
  /** When the line was logged, in milliseconds since 1970; under `testRondo` the virtual time. */
  readonly at: number;
  /** The name of the workflow. */
  readonly workflow: string;
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
  /**
   * The fields of the line: those of its first value, if that is a plain object, as in `log.info({ order: 7 }, "paid")`; of an
   * error, `err`. Empty otherwise.
   */
  readonly fields: Readonly<Record<string, unknown>>;
  /** The logged values that follow the fields, joined into one text. */
  readonly message: string;
}
