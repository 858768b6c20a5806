/** What serves the shape of Dapr's state API on loopback: values with ETags, written only if the ETag is the same. */
import { once } from "node:events";
import { createServer, type IncomingMessage, type Server } from "node:http";
import type { AddressInfo } from "node:net";

interface Item {
  readonly key: string;
  readonly value: unknown;
  readonly etag?: string;
  readonly options?: { readonly concurrency?: string };
  readonly metadata?: { readonly partitionKey?: string };
}

export class DaprStub {
  /** By store, partition and key. */
  readonly values = new Map<string, { value: unknown; etag: number }>();
  /** Requests as they came. */
  readonly requests: { method: string; url: string; token: string | undefined; body: unknown }[] = [];
  /** Answers instead of the store, if it gives a status. */
  instead: (request: { method: string; url: string }) => number | null = () => null;
  givesEtags = true;
  readonly #server: Server;
  #etag = 0;

  private constructor() {
    this.#server = createServer((request, response) => {
      const answer = (body: unknown): unknown => {
        const { method = "", url = "", headers } = request;
        const token = headers["dapr-api-token"] as string | undefined;
        this.requests.push({ method, url, token, body });
        const status = this.instead({ method, url });
        if (status !== null) return response.writeHead(status).end("instead");
        const {
          status: own,
          etag,
          text,
        } = method === "POST" ? this.#save(url, body as Item[]) : this.#get(url);
        return response.writeHead(own, etag === undefined ? {} : { etag }).end(text);
      };
      // Whoever goes away in the middle of a request gets no answer.
      read(request).then(answer, () => response.destroy());
    });
  }

  static async make(): Promise<DaprStub> {
    const stub = new DaprStub();
    stub.#server.listen(0, "127.0.0.1");
    await once(stub.#server, "listening");
    return stub;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  close(): void {
    this.#server.close().closeAllConnections();
  }

  #get(url: string): { status: number; etag?: string; text?: string } {
    const { pathname, searchParams } = new URL(url, this.url);
    const [, , , store = "", key = ""] = pathname.split("/");
    const partition = searchParams.get("metadata.partitionKey") ?? "";
    const found = this.values.get([decodeURIComponent(store), partition, decodeURIComponent(key)].join("|"));
    if (found === undefined) return { status: 204 };
    return {
      status: 200,
      ...(this.givesEtags ? { etag: String(found.etag) } : {}),
      text: JSON.stringify(found.value),
    };
  }

  #save(url: string, items: readonly Item[]): { status: number; etag?: string; text?: string } {
    const store = decodeURIComponent(new URL(url, this.url).pathname.split("/")[3] ?? "");
    for (const { key, value, etag, options, metadata } of items) {
      const place = [store, metadata?.partitionKey ?? "", key].join("|");
      const there = this.values.get(place);
      const isFirst = options?.concurrency === "first-write";
      if (isFirst && (there === undefined ? etag !== undefined : etag !== String(there.etag)))
        return { status: 409, text: '{"errorCode":"ERR_STATE_SAVE"}' };
      this.values.set(place, { value, etag: ++this.#etag });
    }
    return { status: 204 };
  }
}

async function read(request: IncomingMessage): Promise<unknown> {
  let text = "";
  for await (const chunk of request as AsyncIterable<Buffer>) text += chunk.toString();
  return text === "" ? null : JSON.parse(text);
}
