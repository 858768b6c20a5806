/** A request as `Fetch` gets it. */
export interface HttpRequest {
  /** `GET`, `POST` or `DELETE`. */
  readonly method: string;
  /** The headers. */
  readonly headers: Readonly<Record<string, string>>;
  /** The body, as JSON. */
  readonly body?: string;
  /** Aborts the request. */
  readonly signal?: AbortSignal;
}

/** A response as `Fetch` gives it: the part of the standard `Response` that the client uses. */
export interface HttpResponse {
  /** The HTTP status. */
  readonly status: number;
  /** The headers. */
  readonly headers: { get(name: string): string | null };
  /** The body as a stream, for server-sent events. */
  readonly body: {
    getReader(): {
      read(): Promise<{ readonly done: boolean; readonly value?: Uint8Array | string | undefined }>;
      cancel(): Promise<unknown>;
    };
  } | null;
  /** The whole body. */
  text(): Promise<string>;
}

/** Sends a request. The promise rejects if there is no response. */
export type Fetch = (url: string, request: HttpRequest) => Promise<HttpResponse>;
