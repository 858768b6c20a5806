/**
 * Carries out requests that clients send over the broker. Consumes `<p>.workflow.created` and `<p>.workflow.control`.
 *
 * 1. A message is acknowledged after the commit of its request, and after the broker has confirmed the answer, if `reply_to` asks for
 *    one.
 * 2. Requests for one execution are carried out one after the other.
 * 3. A message that is refused goes to the dead letters with the reason. The client gets the refusal as its answer.
 * 4. While the store or the owner of the execution cannot be reached, the message stays unacknowledged, and the request is repeated.
 */
import { toFault } from "../net/amqp/broker-fault.ts";
import type { BrokerSession } from "../net/amqp/connection.ts";
import type { Delivery } from "../net/amqp/delivery.ts";
import { fitsProperty, SHARED_QUEUE } from "../protocol/amqp-wire.ts";
import {
  type BrokerRequest,
  type RequestAnswer,
  type RequestPort,
  type RequestSender,
  readControl,
  readStart,
} from "../protocol/broker-requests.ts";
import { invalid, readFields } from "../protocol/read-body.ts";
import { BackOff } from "../std/back-off.ts";
import type { Fields } from "../std/decode.ts";
import { defined } from "../std/defined.ts";
import { isRejection, type Rejection, type RejectionCode, reject } from "../std/rejection.ts";
import { toError } from "../std/to-error.ts";
import { atMost, sleep } from "../std/within.ts";
import type { BridgeParts } from "./bridge-parts.ts";

type Read = (fields: Fields, messageId: string | null) => BrokerRequest | Rejection;

const BODY_BYTES_MAX = 4_194_304;
/** How long `stop` waits for running requests. */
const STOP_MS = 2_000;
/** Codes of temporary refusals: the request is repeated until the cause is gone. */
const PASSING: readonly RejectionCode[] = ["store_unavailable", "not_ready", "not_owner", "timeout"];

export class RequestQueues {
  readonly #parts: BridgeParts;
  #port: RequestPort | null = null;
  /** The session in which the queues are consumed. */
  #consumed: BrokerSession | null = null;
  readonly #tags: string[] = [];
  /** The request of each execution that was received last, as a promise. The next request for the execution waits for it. */
  readonly #turns = new Map<string, Promise<void>>();
  #answers = 0;

  constructor(parts: BridgeParts) {
    this.#parts = parts;
  }

  /** Consumes the queues from now on. Returns a function that stops consuming: messages then stay in their queues. */
  serve(port: RequestPort): () => Promise<void> {
    this.#port = port;
    this.check();
    return () => this.#stop();
  }

  async attach(session: BrokerSession): Promise<void> {
    if (this.#port === null || this.#consumed === session) return;
    this.#consumed = session;
    this.#tags.length = 0;
    const { names } = this.#parts;
    await this.#consume(session, names.created, readStart);
    await this.#consume(session, names.control, readControl);
  }

  detach(): void {
    this.#consumed = null;
  }

  /** Consumes the queues if they are not consumed yet. */
  check(): void {
    const session = this.#parts.session();
    if (session === null) return;
    this.attach(session).catch((thrown: unknown) => {
      if (this.#consumed === session) this.#consumed = null;
      this.#parts.onFault(toFault(thrown));
    });
  }

  async #stop(): Promise<void> {
    this.#port = null;
    const session = this.#parts.session();
    if (session !== null && session === this.#consumed)
      // If the connection breaks, its consumers end without being cancelled, so an error is ignored.
      for (const tag of this.#tags.splice(0)) await session.cancel(tag).catch(() => {});
    this.#consumed = null;
    await atMost(this.#parts.clock, STOP_MS, Promise.all(this.#turns.values()));
  }

  async #consume(session: BrokerSession, queue: string, read: Read): Promise<void> {
    const { repair, onFault } = this.#parts;
    await repair.open(session, [queue], async () => {
      await session.withChannel((channel) => channel.assertQueue(queue, SHARED_QUEUE));
      const tag = await session.consume(queue, (delivery) => {
        if (delivery !== null) return this.#onMessage(delivery, read);
        // No delivery means that the broker cancelled the consumer: the queue was deleted. It is declared and consumed again.
        if (this.#port !== null)
          this.#consume(session, queue, read).catch((thrown: unknown) => onFault(toFault(thrown)));
      });
      this.#tags.push(tag);
    });
  }

  #onMessage(delivery: Delivery, read: Read): void {
    const request = this.#read(delivery, read);
    if (isRejection(request)) return this.#refuse(delivery, request);
    const turn = request.id ?? `~${request.kind === "control" ? request.workflowHash : request.key}`;
    const after = (this.#turns.get(turn) ?? Promise.resolve())
      .then(() => this.#handle(delivery, request))
      .catch((thrown: unknown) => {
        this.#parts.onFault(toFault(thrown));
        this.#parts.dead.put(
          delivery,
          "the engine failed to carry out the request: see the engine's log for the error",
        );
      })
      .then(() => {
        if (this.#turns.get(turn) === after) this.#turns.delete(turn);
      });
    this.#turns.set(turn, after);
  }

  #read({ message: { content, properties } }: Delivery, read: Read): BrokerRequest | Rejection {
    if (content.length > BODY_BYTES_MAX)
      return reject("too_large", `the message has more than ${BODY_BYTES_MAX} bytes`);
    for (const [name, text] of [
      ["reply_to", properties.replyTo],
      ["correlation_id", properties.correlationId],
      ["message_id", properties.messageId],
    ] as const)
      if (textOf(text) !== null && !fitsProperty(text)) return invalid(`\`${name}\` is not valid UTF-8`);
    if (textOf(properties.replyTo)?.startsWith(`${this.#parts.names.prefix}.`) === true)
      return invalid("`reply_to` names a queue of the engine itself: name a queue of the client");
    const fields = readFields(content);
    return isRejection(fields) ? fields : read(fields, textOf(properties.messageId));
  }

  /** Carries out a request. Repeats it with back-off while the refusal is a temporary one. */
  async #handle(delivery: Delivery, request: BrokerRequest): Promise<void> {
    const backOff = new BackOff({});
    for (;;) {
      // The message is returned to its queue. The broker delivers it again, to this node or another one.
      if (this.#port === null || !delivery.isOpen) return delivery.nack();
      const answer = await this.#ask(this.#port, request, senderOf(delivery));
      if (!isRejection(answer)) return this.#answer(delivery, answer, () => delivery.ack());
      if (!PASSING.includes(answer.code)) return this.#refuse(delivery, answer, request.id);
      await sleep(this.#parts.clock, backOff.next());
    }
  }

  async #ask(
    port: RequestPort,
    request: BrokerRequest,
    sender: RequestSender,
  ): Promise<RequestAnswer | Rejection> {
    try {
      return await port.handle(request, sender);
    } catch (thrown) {
      this.#parts.onFault(toError(thrown));
      return invalid("the engine failed to carry out the request: see the engine's log for the error");
    }
  }

  #refuse(delivery: Delivery, refusal: Rejection, id?: string): void {
    const { code, message, hint, path } = refusal;
    const error = { code, message, ...defined({ hint, path }) };
    this.#answer(delivery, { ...defined({ workflow_id: id }), error }, () => {});
    this.#parts.dead.put(delivery, `${code}: ${message}`);
  }

  /**
   * Publishes an answer if the message asks for one. Calls `then` after the broker has confirmed the answer or said that its queue does
   * not exist.
   */
  #answer({ message: { properties } }: Delivery, answer: object, then: () => void): void {
    const { publisher, names } = this.#parts;
    const queue = textOf(properties.replyTo);
    const isAddress = queue !== null && fitsProperty(queue) && !queue.startsWith(`${names.prefix}.`);
    if (!isAddress) return then();
    publisher.publish({
      key: queue,
      id: `answer~${++this.#answers}`,
      body: Buffer.from(JSON.stringify({ ok: !("error" in answer), ...answer })),
      mandatory: true,
      ...defined({
        correlationId: [properties.correlationId, properties.messageId].find(
          (text) => textOf(text) !== null && fitsProperty(text),
        ),
      }),
      done: then,
    });
  }
}

function senderOf({ message: { properties } }: Delivery): RequestSender {
  const headers = (properties.headers ?? {}) as Fields;
  return { token: textOf(headers["token"]), user: textOf(properties.userId) };
}

function textOf(value: unknown): string | null {
  return typeof value === "string" && value !== "" ? value : null;
}
