/**
 * Sends messages to other nodes. All messages to one node that are sent in the same turn of the event loop share one HTTP request. Its
 * answers arrive one by one, as lines, so that no message waits for another. A single message is sent alone. So is each message to a node
 * of an earlier version, which does not know requests with several messages.
 */
import type { Reply } from "../../engine/driver-options.ts";
import { HttpFault } from "../../net/http-fault.ts";
import type { Clock } from "../../std/clock.ts";
import type { Rejection, RejectionCode } from "../../std/rejection.ts";
import type { CallOptions, PeerAnswer, PeerClient } from "./peer-client.ts";
import { SENDS_MAX, type SendBody } from "./peer-wire.ts";

/** A line of the answer: the reply to the message with this index, or the reason why there is no reply. */
export interface SentLine {
  readonly i: number;
  readonly reply?: Reply;
  readonly rejection?: Rejection;
}

/** The largest size of a request with several messages, in characters, approximately. */
const CHARS_MAX = 4_194_304;
const TIMEOUT_MS = 30_000;
/** Codes of refusals that would be the same if the request were repeated. */
const REFUSED: readonly RejectionCode[] = [
  "store_unavailable",
  "invalid_json",
  "invalid_input",
  "unknown_field",
  "too_large",
];

interface Item {
  readonly body: SendBody;
  readonly chars: number;
  readonly signal: AbortSignal | undefined;
  readonly answer: (answer: PeerAnswer<Reply>) => void;
}

export class SendBatches {
  readonly #client: Pick<PeerClient, "call" | "open">;
  readonly #clock: Pick<Clock, "soon" | "after">;
  readonly #waiting = new Map<string, Item[]>();
  /** Nodes that do not know requests with several messages. */
  readonly #older = new Set<string>();

  constructor(client: Pick<PeerClient, "call" | "open">, clock: Pick<Clock, "soon" | "after">) {
    this.#client = client;
    this.#clock = clock;
  }

  /** Sends a message to another node. Resolves with the same results as `PeerClient.call`. */
  send(url: string, body: SendBody, { signal }: CallOptions): Promise<PeerAnswer<Reply>> {
    return new Promise((resolve) => {
      const chars = body.message.kind === "start" ? body.message.input.length : 0;
      const item: Item = { body, chars, signal, answer: resolve };
      const waiting = this.#waiting.get(url);
      if (waiting !== undefined) {
        waiting.push(item);
        return;
      }
      this.#waiting.set(url, [item]);
      this.#clock.soon(() => this.#flush(url));
    });
  }

  #flush(url: string): void {
    const items = this.#waiting.get(url) ?? [];
    this.#waiting.delete(url);
    for (let batch = take(items); batch.length > 0; batch = take(items))
      if (batch.length === 1 || this.#older.has(url)) this.#sendEach(url, batch);
      else void this.#sendAll(url, batch);
  }

  #sendEach(url: string, items: readonly Item[]): void {
    for (const { body, signal, answer } of items)
      void this.#client
        .call<Reply>(url, "send", { v: 1, ...body }, signal === undefined ? {} : { signal })
        .then(answer);
  }

  async #sendAll(url: string, items: readonly Item[]): Promise<void> {
    const open = new Map(items.entries());
    const abort = new AbortController();
    const settle = (i: number, answer: PeerAnswer<Reply>): void => {
      open.get(i)?.answer(answer);
      open.delete(i);
    };
    // If a message's execution has moved to another node, the message waits no longer for its reply. The other messages do.
    const onMoved = (i: number): void => {
      settle(i, { kind: "unreached", why: "another node owns it" });
      if (open.size === 0) abort.abort();
    };
    const listeners = items.map((_, i) => () => onMoved(i));
    for (const [i, onAbort] of listeners.entries()) items[i]?.signal?.addEventListener("abort", onAbort);
    const cancel = this.#clock.after(TIMEOUT_MS, () => abort.abort());
    const end = await this.#readLines(url, { items, settle, signal: abort.signal });
    cancel();
    for (const [i, onAbort] of listeners.entries()) items[i]?.signal?.removeEventListener("abort", onAbort);
    const left = [...open];
    if (end.isOlder === true) {
      this.#older.add(url);
      this.#sendEach(
        url,
        left.map(([, item]) => item),
      );
    } else for (const [i] of left) settle(i, { kind: "unreached", why: end.why });
  }

  /** Settles messages by the lines of the answer. Returns why the lines ended. */
  async #readLines(
    url: string,
    {
      items,
      settle,
      signal,
    }: {
      readonly items: readonly Item[];
      readonly settle: (i: number, answer: PeerAnswer<Reply>) => void;
      readonly signal: AbortSignal;
    },
  ): Promise<{ readonly why: string; readonly isOlder?: boolean }> {
    const sends = items.map(({ body }) => body);
    const lines = await this.#client.open<SentLine>(url, "sends", { v: 1, sends }, signal);
    if (lines.kind === "unreached") return { why: lines.why, isOlder: lines.status === 404 };
    const last = { why: `${url} did not answer` };
    if (lines.kind !== "answered") {
      for (const i of items.keys()) settle(i, lines);
      return last;
    }
    try {
      for await (const line of lines.value) settle(line.i, answerOf(url, line));
      return last;
    } catch (thrown) {
      if (!(thrown instanceof HttpFault)) throw thrown;
      return { why: thrown.message };
    }
  }
}

/** Takes the messages of the next request from the queue. */
function take(items: Item[]): Item[] {
  let [count, chars] = [0, 0];
  for (const item of items) {
    chars += item.chars;
    if (count === SENDS_MAX || (count > 0 && chars > CHARS_MAX)) break;
    count++;
  }
  return items.splice(0, count);
}

function answerOf(url: string, { reply, rejection }: SentLine): PeerAnswer<Reply> {
  if (reply !== undefined) return { kind: "answered", value: reply };
  if (rejection === undefined)
    return { kind: "unreached", why: `${url} sent a line that is not the reply to a message` };
  if (rejection.code === "not_owner") return { kind: "not-owner" };
  return REFUSED.includes(rejection.code)
    ? { kind: "refused", rejection: { ...rejection, message: `${url}: ${rejection.message}` } }
    : { kind: "unreached", why: `${url}: ${rejection.message}` };
}
