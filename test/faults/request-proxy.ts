/**
 * A proxy that knows requests. It stands between workers and their server, and stops what it is told to at the moment it
 * is told to: when a request has come whole and the server has not seen it, or when the server's answer has come whole
 * and the worker has not. What is stopped is passed on, or cut off, when the test says so. It keeps bodies, to send them
 * again.
 */
import { once } from "node:events";
import { Agent, createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { bodyOf, forward } from "../../tools/demo/harm/forward.ts";

/** A request as it went through. */
export interface Passed {
  readonly method: string;
  readonly path: string;
  readonly body: string;
}

/** What a server said. */
export interface Answered {
  readonly status: number;
  readonly body: string;
}

export type Moment = "asked" | "answered";

/** A request that stands still. */
export interface Stopped {
  readonly request: Passed;
  /** Null: the server has not seen it. */
  readonly answer: Answered | null;
  /** It goes on as if nothing had been. */
  pass(): void;
  /** The client's connection breaks. */
  cut(): void;
}

interface Trap {
  readonly fits: (request: Passed) => boolean;
  readonly moment: Moment;
  readonly caught: (stopped: Stopped) => void;
}

export class RequestProxy {
  readonly url: string;
  /** Bodies of requests that fit are kept. */
  keeps: RegExp | null = null;
  readonly kept: Passed[] = [];
  /** True: nobody can connect, and what is open breaks. */
  #isDown = false;
  readonly #server: Server;
  readonly #agent = new Agent({ keepAlive: true });
  readonly #target: URL;
  readonly #traps: Trap[] = [];
  /** Moments so far: each request has two. */
  moments = 0;
  #reached = new Set<() => void>();
  /** Requests the server has and has not answered. */
  readonly #open = new Set<Passed>();

  private constructor(server: Server, target: string) {
    this.#server = server;
    this.#target = new URL(target);
    this.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  }

  static async start(target: string): Promise<RequestProxy> {
    const server = createServer({ requestTimeout: 0 });
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    const proxy = new RequestProxy(server, target);
    server.on("request", (incoming, outgoing) => {
      // A side that goes away in the middle is what this is for.
      proxy.#serve(incoming, outgoing).catch(() => outgoing.destroy());
    });
    return proxy;
  }

  /** The next request that fits stops at this moment. */
  trap(path: RegExp, moment: Moment, body: RegExp = /^/): Promise<Stopped> {
    const fits = (request: Passed): boolean => path.test(request.path) && body.test(request.body);
    return new Promise((caught) => this.#traps.push({ fits, moment, caught }));
  }

  /** Resolves at the n-th moment from now: a request has come, or its answer has. */
  async reached(n: number): Promise<void> {
    const wanted = this.moments + n;
    while (this.moments < wanted) await new Promise<void>((resolve) => this.#reached.add(resolve));
  }

  /** Whether the server has an open request of this kind. */
  isOpen(path: RegExp): boolean {
    return [...this.#open].some((request) => path.test(request.path));
  }

  set isDown(isDown: boolean) {
    this.#isDown = isDown;
    if (isDown) this.#server.closeAllConnections();
  }

  /** Sends a request that went through before once more. */
  replay({ method, path, body }: Passed): Promise<Answered> {
    return this.#ask({ method, path, body }, {});
  }

  close(): void {
    this.#server.close();
    this.#server.closeAllConnections();
    this.#agent.destroy();
  }

  async #serve(incoming: IncomingMessage, outgoing: ServerResponse): Promise<void> {
    if (this.#isDown) {
      outgoing.destroy();
      return;
    }
    const passed = {
      method: incoming.method ?? "GET",
      path: incoming.url ?? "/",
      body: (await bodyOf(incoming)).toString(),
    };
    if (this.keeps?.test(passed.path)) this.kept.push(passed);
    const gone = new AbortController();
    outgoing.once("close", () => gone.abort());
    await this.#stop(passed, "asked", null, outgoing);
    const answer = await this.#ask(passed, incoming.headers, gone.signal);
    await this.#stop(passed, "answered", answer, outgoing);
    outgoing.writeHead(answer.status, { "content-type": "application/json" }).end(answer.body);
  }

  /** Stands still if there is a trap; throws if the connection was cut. */
  async #stop(
    passed: Passed,
    moment: Moment,
    answer: Answered | null,
    outgoing: ServerResponse,
  ): Promise<void> {
    this.moments++;
    for (const reached of this.#reached) reached();
    this.#reached.clear();
    const at = this.#traps.findIndex((trap) => trap.moment === moment && trap.fits(passed));
    if (at < 0) return;
    const [trap] = this.#traps.splice(at, 1);
    await new Promise<void>((pass, fail) => {
      const cut = (): void => {
        outgoing.destroy();
        fail(new Error("cut"));
      };
      trap?.caught({ request: passed, answer, pass, cut });
    });
  }

  async #ask(
    passed: Passed,
    { authorization, "content-type": type = "application/json" }: IncomingMessage["headers"],
    signal?: AbortSignal,
  ): Promise<Answered> {
    const body = Buffer.from(passed.body);
    const headers = {
      "content-type": type,
      "content-length": String(body.length),
      ...(authorization === undefined ? {} : { authorization }),
    };
    const asked = { ...passed, headers, body, ...(signal === undefined ? {} : { signal }) };
    this.#open.add(passed);
    try {
      const answer = await forward(this.#target, this.#agent, asked);
      return { status: answer.status, body: answer.body.toString() };
    } finally {
      this.#open.delete(passed);
    }
  }
}
