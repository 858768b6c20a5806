// A real server for tests, on a free port, over a memory store or a directory; and requests to it, each answer of which
// is checked against the server's own OpenAPI document.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { onTestFinished } from "vitest";
import { openServer, type ServerOptions } from "../../src/compose/compose-server.ts";
import type { RondoServer } from "../../src/server/serve.ts";
import { MemoryStore } from "../../src/store/memory/memory-store.ts";
import { checkAnswer, type OpenApi } from "./api-document.ts";

/** A value whose fields can be looked at without saying what they are. */
export interface Loose {
  readonly [field: string]: Loose;
}

export interface Got {
  readonly status: number;
  readonly headers: Headers;
  readonly body: Loose;
  readonly text: string;
}

export interface Sent {
  readonly token?: string | null;
  readonly headers?: Readonly<Record<string, string>>;
  /** A text goes as it is, anything else as JSON. */
  readonly body?: unknown;
}

/** A server on a free port; closed after the test. */
export async function serve(options: ServerOptions = {}): Promise<Api> {
  const faults: Error[] = [];
  const server = await openServer({
    port: 0,
    store: new MemoryStore(),
    onFault: (fault) => void faults.push(fault),
    onStop: (reason) => void faults.push(reason),
    ...options,
  });
  const api = new Api(server, faults);
  onTestFinished(() => api.close());
  return api;
}

/** A folder of its own; gone after the test. */
export function folder(): string {
  const path = mkdtempSync(join(tmpdir(), "rondo-api-"));
  onTestFinished(() => rmSync(path, { recursive: true, force: true }));
  return path;
}

/** Both kinds of store, for tests that run over each. */
export const STORES: readonly [name: string, store: () => string | MemoryStore][] = [
  ["memory", () => new MemoryStore()],
  ["SQLite", () => `file:${folder()}`],
];

export class Api {
  readonly server: RondoServer;
  /** What the server complained of. */
  readonly faults: Error[];
  /** Used where a request names none. */
  token: string | null = null;
  #document: OpenApi | null = null;

  constructor(server: RondoServer, faults: Error[]) {
    this.server = server;
    this.faults = faults;
  }

  get url(): string {
    return this.server.url;
  }

  get rondo(): RondoServer["rondo"] {
    return this.server.rondo;
  }

  async close(): Promise<void> {
    await this.server.close({ graceMs: 1_000 });
  }

  get(path: string, sent: Sent = {}): Promise<Got> {
    return this.ask("GET", path, sent);
  }

  post(path: string, body?: unknown, sent: Sent = {}): Promise<Got> {
    return this.ask("POST", path, { ...sent, ...(body === undefined ? {} : { body }) });
  }

  delete(path: string, sent: Sent = {}): Promise<Got> {
    return this.ask("DELETE", path, sent);
  }

  /** Sends a request; throws if the answer is not one that the document tells of. */
  async ask(method: string, path: string, sent: Sent = {}): Promise<Got> {
    const got = await this.#send(method, path, sent);
    const type = got.text === "" ? null : got.headers.get("content-type");
    const wrong = checkAnswer(await this.document(), { method, path }, { ...got, type });
    if (wrong !== null) throw new Error(`${wrong}: ${got.text.slice(0, 500)}`);
    return got;
  }

  async document(): Promise<OpenApi> {
    this.#document ??= (await this.#send("GET", "/openapi.json", {})).body as unknown as OpenApi;
    return this.#document;
  }

  /** Makes a token; the first is made where none is needed yet, and is used from then on if it is an admin's. */
  async makeToken(role: string, project?: string): Promise<string> {
    await this.document();
    const name = `${role}-${project ?? "all"}`;
    const made = await this.post("/v1/tokens", { name, role, ...(project === undefined ? {} : { project }) });
    if (made.status !== 201) throw new Error(made.text);
    const token = textOf(made.body["token"]);
    if (role === "admin" && project === undefined) this.token ??= token;
    return token;
  }

  async #send(method: string, path: string, { token = this.token, headers, body }: Sent): Promise<Got> {
    const response = await fetch(`${this.url}${path}`, {
      method,
      headers: {
        ...(token === null ? {} : { authorization: `Bearer ${token}` }),
        ...(body === undefined ? {} : { "content-type": "application/json" }),
        ...headers,
      },
      ...(body === undefined ? {} : { body: typeof body === "string" ? body : JSON.stringify(body) }),
    });
    const text = await response.text();
    const isJson = /json/.test(response.headers.get("content-type") ?? "");
    const parsed: unknown = isJson && text !== "" ? JSON.parse(text) : null;
    return { status: response.status, headers: response.headers, text, body: parsed as Loose };
  }
}

/** Waits until something holds, looking again and again. */
export async function until(holds: () => boolean | Promise<boolean>): Promise<void> {
  while (!(await holds())) await new Promise((resolve) => setTimeout(resolve, 5));
}

/** Waits until an execution has ended. */
export async function ended(api: Api, id: string): Promise<Loose> {
  let body: Loose = {};
  await until(async () => {
    ({ body } = await api.get(`/v1/executions/${id}`));
    return (body["finishedAt"] as unknown) !== null;
  });
  return body;
}

/** A field that is a text. */
export function textOf(value: unknown): string {
  if (typeof value !== "string") throw new Error(`this is no text: ${JSON.stringify(value)}`);
  return value;
}
