/** The error for a broker that failed or refused. Only drivers catch it. */
export class BrokerFault extends Error {
  override name = "BrokerFault";
  /** Whether a retry may succeed. */
  readonly retryable: boolean;
  /** The broker's reply code, such as 404 or 406; null if it sent none. */
  readonly code: number | null;
  /** Whether the broker did not answer in time. */
  readonly isSilent: boolean;

  constructor(message: string, options: { code?: number | null; cause?: unknown; isSilent?: boolean } = {}) {
    super(message, { cause: options.cause });
    this.code = options.code ?? null;
    this.isSilent = options.isSilent === true;
    this.retryable = this.code === null;
  }
}

/**
 * Converts an error for a report: a fault of the store or the broker stays as it is, any other error becomes a fault of the
 * broker.
 */
export function toReported(thrown: unknown): Error {
  return thrown instanceof Error && "retryable" in thrown ? thrown : toFault(thrown);
}

/** Converts an error of the client library into a fault. */
export function toFault(thrown: unknown): BrokerFault {
  if (thrown instanceof BrokerFault) return thrown;
  const { message, code } = thrown as { message?: unknown; code?: unknown };
  return new BrokerFault(`the broker failed: ${typeof message === "string" ? message : String(thrown)}`, {
    code: typeof code === "number" ? code : null,
    cause: thrown,
  });
}
