/** An HTTP request, as the client passes it to its `Fetch` function. */
export interface HttpRequest {
  /** `GET`, `POST` or `DELETE`. */
  readonly method: string;
  /** The headers of the request. */
  readonly headers: Readonly<Record<string, string>>;
  /** The body of the request, as JSON text. */
  readonly body?: string;
  /** A signal that aborts the request. */
  readonly signal?: AbortSignal;
}

/** An HTTP response, as a `Fetch` function returns it: the part of the standard `Response` that the client uses. */
export interface HttpResponse {
  /** The HTTP status of the response. */
  readonly status: number;
  /** The headers of the response. */
  readonly headers: { get(name: string): string | null };
  /** The body of the response as a stream, for server-sent events. */
  readonly body: {
    getReader(): {
      read(): Promise<{ readonly done: boolean; readonly value?: Uint8Array | string | undefined }>;
      cancel(): Promise<unknown>;
    };
  } | null;
  /** Reads the whole body of the response. */
  text(): Promise<string>;
}

/** Sends a request. The promise rejects if there is no response. */
export type Fetch = (url: string, request: HttpRequest) => Promise<HttpResponse>;
