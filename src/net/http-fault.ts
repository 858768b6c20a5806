/** The other side could not be reached, or did not answer as HTTP: nobody knows what became of the request. */
export class HttpFault extends Error {
  override name = "HttpFault";
  /** What the system says, such as ECONNREFUSED; `timeout` or `aborted` if that was it. */
  readonly code: string;
  /** The connection was an old one that the other side had closed meanwhile: on a new one it may well work. */
  readonly isStale: boolean;
  constructor(message: string, code: string, options: ErrorOptions & { isStale?: boolean } = {}) {
    super(message, options);
    this.code = code;
    this.isStale = options.isStale === true;
  }
}
