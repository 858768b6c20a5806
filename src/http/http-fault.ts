/** The other side could not be reached, or did not answer as HTTP: nobody knows what became of the request. */
export class HttpFault extends Error {
  override name = "HttpFault";
  /** What the system says, such as ECONNREFUSED; `timeout` or `aborted` if that was it. */
  readonly code: string;
  constructor(message: string, code: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}
