/**
 * The error for a server that could not be reached, or did not answer with HTTP. It is unknown whether the request had an
 * effect.
 */
export class HttpFault extends Error {
  override name = "HttpFault";
  /** The system's error code, such as ECONNREFUSED; or `timeout` or `aborted`. */
  readonly code: string;
  /** Whether the server had closed a kept-alive connection, so that a new connection may work. */
  readonly isStale: boolean;
  constructor(message: string, code: string, options: ErrorOptions & { isStale?: boolean } = {}) {
    super(message, options);
    this.code = code;
    this.isStale = options.isStale === true;
  }
}
