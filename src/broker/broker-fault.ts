/** The broker failed, or refused. Only drivers catch it. */
export class BrokerFault extends Error {
  override name = "BrokerFault";
  /** Worth trying again. */
  readonly retryable: boolean;
  /** What the broker said, such as 404 or 406; null: nothing. */
  readonly code: number | null;
  /** It said nothing in time. */
  readonly isSilent: boolean;

  constructor(message: string, options: { code?: number | null; cause?: unknown; isSilent?: boolean } = {}) {
    super(message, { cause: options.cause });
    this.code = options.code ?? null;
    this.isSilent = options.isSilent === true;
    this.retryable = this.code === null;
  }
}

/** What was thrown by the library, as a fault. */
export function toFault(thrown: unknown): BrokerFault {
  if (thrown instanceof BrokerFault) return thrown;
  const { message, code } = thrown as { message?: unknown; code?: unknown };
  return new BrokerFault(`the broker failed: ${typeof message === "string" ? message : String(thrown)}`, {
    code: typeof code === "number" ? code : null,
    cause: thrown,
  });
}
