/** What the client needs of `fetch`: the browser's, Node's, or one that goes over a socket. */

export interface HttpRequest {
  readonly method: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: string;
  readonly signal?: AbortSignal;
}

export interface HttpResponse {
  readonly status: number;
  readonly headers: { get(name: string): string | null };
  readonly body: {
    getReader(): {
      read(): Promise<{ readonly done: boolean; readonly value?: Uint8Array | string | undefined }>;
      cancel(): Promise<unknown>;
    };
  } | null;
  text(): Promise<string>;
}

/** Sends one request. Rejects if there is no answer at all. */
export type Fetch = (url: string, request: HttpRequest) => Promise<HttpResponse>;
