/**
 * The routes for other nodes over HTTP. The API server passes on every request whose path begins with `PEER_PATH`:
 *
 * const answer = await peers.answer(incoming, outgoing); dropBody(incoming); if (answer.kind === "json") sendAnswer(outgoing,
 * answer, undefined); else if (answer.kind === "rejection") sendProblem(outgoing, answer);
 *
 * 1. The signature is checked before the body is read, and then the body against the signed digest.
 * 2. Only this node's own engine answers requests. A request about an execution of another node is refused as `not_owner`.
 * 3. The ring, permits and other notices are handled by hooks, which are found by name.
 */
import type { IncomingMessage, ServerResponse } from "node:http";
import type { EnginePort } from "../../engine/engine-port.ts";
import type { Clock } from "../../std/clock.ts";
import { isRejection, type Rejection, reject } from "../../std/rejection.ts";
import { toError } from "../../std/to-error.ts";
import { Longer, within } from "../../std/within.ts";
import { type Store, StoreFault } from "../../store/store.ts";
import type { Owners } from "./owners.ts";
import { digestOf, type PeerKey } from "./peer-key.ts";
import {
  type BeatBody,
  BODIES,
  BODY_BYTES_MAX,
  checkBody,
  HEADER,
  type InspectBody,
  PEER_PATH,
  type ReportBody,
  SCHEME,
  type SendBody,
} from "./peer-wire.ts";
import { PlanLoader } from "./plan-loader.ts";
import { WatchStream } from "./watch-stream.ts";

/** Handles a message of another node and returns the answer. The signature of the body was checked before, but not its fields. */
export type PeerHook = (body: unknown, from: string) => unknown;

export interface PeerRoutesOptions {
  /** This node's own engine, which never asks other nodes. */
  readonly engine: EnginePort;
  readonly store: Pick<Store, "getDefinition">;
  readonly owners: Pick<Owners, "isMine" | "onChange">;
  readonly key: PeerKey;
  readonly clock: Pick<Clock, "after">;
  /** Hooks by the last part of the path: `token`, `state`, `timer-due`, `letters`, `permits`. */
  readonly hooks?: Readonly<Record<string, PeerHook>>;
  /** The most watches by other nodes that are open at a time. */
  readonly streamsMax?: number;
  readonly bodyBytesMax?: number;
  readonly onFault?: (fault: Error) => void;
}

/** The answer to a request of another node; `streamed` if it was written to the connection already. */
export type RouteAnswer =
  | { readonly kind: "json"; readonly status: 200; readonly body: unknown }
  | { readonly kind: "streamed" }
  | Rejection;

const STREAMS_MAX = 5_000;
/** How long a message waits while the store accepts no writes. After that the sender gets an answer with the reason. */
const STORE_WAIT_MS = 2_000;

export class PeerRoutes {
  /** All requests of other nodes are below this path. */
  readonly path = PEER_PATH;
  readonly #options: PeerRoutesOptions;
  readonly #plans: PlanLoader;
  readonly #streams = new Set<WatchStream>();

  constructor(options: PeerRoutesOptions) {
    this.#options = options;
    this.#plans = new PlanLoader(options.store);
  }

  /** Answers one request of another node. Never throws. */
  async answer(incoming: IncomingMessage, outgoing: ServerResponse): Promise<RouteAnswer> {
    try {
      const body = await this.#admit(incoming);
      if (isRejection(body)) return body;
      const name = (incoming.url ?? "").slice(PEER_PATH.length);
      if (name === "watch") return await this.#watch(body.value, outgoing);
      if (name === "sends") return await this.#sends(body.value, outgoing);
      const value = await this.#ask(name, body.value, headerOf(incoming, HEADER.from));
      return isRejection(value) ? value : { kind: "json", status: 200, body: value };
    } catch (thrown) {
      return this.#failed(thrown);
    }
  }

  #failed(thrown: unknown): Rejection {
    this.#options.onFault?.(toError(thrown));
    return thrown instanceof StoreFault
      ? reject("store_unavailable", "the store could not execute the request just now")
      : reject("not_ready", "the node failed to answer because of an error in it: see its log");
  }

  close(): void {
    for (const stream of this.#streams) stream.end();
  }

  /** Checks the signature and the body of a request. */
  async #admit(incoming: IncomingMessage): Promise<{ readonly value: unknown } | Rejection> {
    const path = incoming.url ?? "";
    const from = headerOf(incoming, HEADER.from);
    const digest = headerOf(incoming, HEADER.digest);
    const [scheme, signature = ""] = headerOf(incoming, "authorization").split(" ");
    if (scheme !== SCHEME || !this.#options.key.isSignedBy({ path, from, digest }, signature))
      return reject("unauthorised", "this route is only for nodes of the same cluster", {
        hint: "give all nodes the same RONDO_SECRET",
      });
    if (headerOf(incoming, HEADER.hops) !== "1")
      return reject(
        "invalid_input",
        "a request that another node has passed on must not be passed on again",
        {
          path: HEADER.hops,
        },
      );
    const text = await readBody(incoming, this.#options.bodyBytesMax ?? BODY_BYTES_MAX);
    if (isRejection(text)) return text;
    if (digestOf(text) !== digest)
      return reject("unauthorised", "the body differs from the one that was signed");
    try {
      return { value: JSON.parse(text) as unknown };
    } catch (thrown) {
      return reject("invalid_json", `the body is not JSON: ${String(thrown).slice(0, 200)}`);
    }
  }

  async #ask(name: string, body: unknown, from: string): Promise<unknown> {
    const { engine, hooks = {} } = this.#options;
    switch (name) {
      case "send":
        return this.#send(body);
      case "inspect": {
        const asked = checkBody<InspectBody>(BODIES.inspect, body);
        if (isRejection(asked)) return asked;
        const inspection = await engine.inspect(asked.execution, asked.attempt);
        return this.#unlessElsewhere(inspection) ?? { inspection };
      }
      case "dropped": {
        const asked = checkBody<{ execution: string }>(BODIES.dropped, body);
        return isRejection(asked) ? asked : engine.dropped(asked.execution);
      }
      case "report": {
        const said = checkBody<ReportBody>(BODIES.report, body);
        if (isRejection(said)) return said;
        const verdicts = await engine.report(said.worker, said.reports);
        return engine.hasStopped ? stopped() : verdicts;
      }
      case "beat": {
        const said = checkBody<BeatBody>(BODIES.beat, body);
        if (isRejection(said)) return said;
        engine.beat(said.worker, said.beats);
        return {};
      }
      case "definition": {
        const said = checkBody<{ workflow: string }>(BODIES.definition, body);
        if (isRejection(said)) return said;
        engine.definitionStored(said.workflow);
        return {};
      }
      default: {
        const hook = Object.hasOwn(hooks, name) ? hooks[name] : undefined;
        if (hook === undefined) return reject("not_found", `nodes have no route ${name.slice(0, 100)}`);
        return (await hook(body, from)) ?? {};
      }
    }
  }

  /** Answers several messages, each with a line of its own as soon as it is done. */
  async #sends(body: unknown, outgoing: ServerResponse): Promise<RouteAnswer> {
    const asked = checkBody<{ sends: readonly SendBody[] }>(BODIES.sends, body);
    if (isRejection(asked)) return asked;
    outgoing.on("error", () => {});
    outgoing.writeHead(200, { "content-type": "application/x-ndjson", "cache-control": "no-store" });
    await Promise.all(
      asked.sends.map(async (one, i) => {
        const reply = await this.#deliver(one).catch((thrown: unknown) => this.#failed(thrown));
        const line = isRejection(reply) ? { i, rejection: reply } : { i, reply };
        if (!outgoing.destroyed) outgoing.write(`${JSON.stringify(line)}\n`);
      }),
    );
    outgoing.end();
    return { kind: "streamed" };
  }

  async #send(body: unknown): Promise<unknown> {
    const asked = checkBody<SendBody>(BODIES.send, body);
    return isRejection(asked) ? asked : this.#deliver(asked);
  }

  async #deliver({ execution, message, fresh }: SendBody): Promise<unknown> {
    if (message.kind !== "start") return this.#inTime(() => this.#options.engine.send(execution, message));
    if (message.execution !== execution)
      return reject("invalid_input", "message.execution: is another execution", {
        path: "message.execution",
      });
    const plan = await this.#plans.plan(message.hash);
    if (plan === null)
      return reject("not_ready", `this node cannot read the definition ${message.hash}`, {
        hint: "the node may have an older version of Rondo",
      });
    return this.#inTime(() => this.#options.engine.send(execution, message, { plan, fresh }));
  }

  /** Waits for the reply of the engine. While the store accepts no writes, there is no reply, and the sender gets the reason instead. */
  async #inTime(send: () => ReturnType<EnginePort["send"]>): Promise<unknown> {
    const { engine, clock } = this.#options;
    const reply = await within<Rejection | Awaited<ReturnType<EnginePort["send"]>>>(
      clock,
      STORE_WAIT_MS,
      send(),
      () => {
        const fault = engine.commitFault;
        if (fault === null) return new Longer(STORE_WAIT_MS);
        return reject("store_unavailable", `the store takes no writes: ${fault.message.slice(0, 200)}`, {
          hint: "send the message again: it cannot be applied twice",
        });
      },
    );
    return "kind" in reply ? reply : (this.#unlessElsewhere(reply.answer) ?? reply);
  }

  /** Returns a refusal if another node, or a later try, could answer the request. Returns null if this node's answer is final. */
  #unlessElsewhere(answer: unknown): Rejection | null {
    if (this.#options.engine.hasStopped) return stopped();
    return isRejection(answer) && answer.code === "not_owner" ? answer : null;
  }

  async #watch(body: unknown, outgoing: ServerResponse): Promise<RouteAnswer> {
    const { streamsMax = STREAMS_MAX } = this.#options;
    const asked = checkBody<{ execution: string }>(BODIES.watch, body);
    if (isRejection(asked)) return asked;
    if (this.#streams.size >= streamsMax)
      return reject("rate_limited", `the maximum of ${this.#streams.size} watches by other nodes is reached`);
    const stream = new WatchStream(this.#options, asked.execution, outgoing);
    this.#streams.add(stream);
    outgoing.once("close", () => this.#streams.delete(stream));
    return (await stream.begin()) ?? { kind: "streamed" };
  }
}

/** Whether a request is for the routes between nodes. */
export function isPeerPath(url: string | undefined): boolean {
  return url?.startsWith(PEER_PATH) === true;
}

function stopped(): Rejection {
  return reject("not_ready", "the engine of this node has stopped");
}

function headerOf({ headers }: IncomingMessage, name: string): string {
  const value = headers[name];
  return typeof value === "string" ? value : "";
}

async function readBody(incoming: IncomingMessage, bytesMax: number): Promise<string | Rejection> {
  const tooLarge = () => reject("too_large", `the body is larger than ${bytesMax} bytes`);
  if (Number(headerOf(incoming, "content-length")) > bytesMax) return tooLarge();
  const chunks: Buffer[] = [];
  let bytes = 0;
  try {
    // The rest of a body that is too large is read and discarded, so that the refusal can still be sent.
    for await (const chunk of incoming.iterator({ destroyOnReturn: false }) as AsyncIterable<Buffer>) {
      bytes += chunk.length;
      if (bytes > bytesMax) return tooLarge();
      chunks.push(chunk);
    }
  } catch (thrown) {
    return reject("invalid_json", `the connection broke before the body was complete: ${String(thrown)}`);
  }
  return Buffer.concat(chunks, bytes).toString();
}
