/** Makes the messages of signals, and sends signals with starts. A start with its signal is one message, so both are in one commit. */

import { LIMITS } from "../kernel/definition/definition.ts";
import { numberOf } from "../kernel/definition/names.ts";
import type { Plan } from "../kernel/definition/plan.ts";
import { successorId } from "../kernel/definition/successor-id.ts";
import type { Succession } from "../kernel/event.ts";
import type { Answer, SignalMessage } from "../kernel/message.ts";
import { checkSignal } from "../protocol/check-request.ts";
import { assert } from "../std/assert.ts";
import { defined } from "../std/defined.ts";
import { newMessageId } from "../std/id.ts";
import { toStoredText } from "../std/json.ts";
import { isRejection, type Rejection } from "../std/rejection.ts";
import { parseDocument } from "../store/document-form.ts";
import type { Store, Swap } from "../store/store.ts";
import type { Reply } from "./driver-options.ts";
import { type StartOptions, type StartParts, startExecution } from "./engine-port.ts";
import { awaitNewest, sendToNewest, untilKnown } from "./newest.ts";
import { PLACE_FORM, type PlaceQuestion, placeBody, placeId, placeSignal } from "./signal-place.ts";

/** Makes the message of a signal, or returns why its name, id or data is refused. */
export function signalMessage(
  { clock, random }: Pick<StartParts, "clock" | "random">,
  { name, data, id }: { readonly name: string; readonly data?: unknown; readonly id?: string },
): SignalMessage | Rejection {
  const wrong = checkSignal(name, id);
  if (wrong !== null) return wrong;
  const text = toStoredText(data, { bytesMax: LIMITS.resultBytes, what: "signal" });
  if (isRejection(text)) return text;
  return { kind: "signal", id: id ?? newMessageId(clock.now(), random), signal: name, data: text };
}

/**
 * Returns whether a wait has taken the signal, or why the signal was refused. A node of version 0.2 does not say whether a wait has
 * taken it.
 */
export function signalState(answer: Answer): "delivered" | "kept" | Rejection {
  if (isRejection(answer)) return answer;
  return (answer.kind === "applied" && answer.signal) || "kept";
}

export interface SignalWithStart extends StartOptions {
  readonly id: string;
  /**
   * `signal`: an existing execution gets the signal. `startNewWhenDone`: the same, but if the existing execution has ended, a new one
   * is started.
   */
  readonly ifExists: "signal" | "startNewWhenDone";
}

/** The parts of the process that a start with a signal needs. */
export interface SignalStartParts extends StartParts {
  readonly store: Pick<Store, "getDocument" | "swapDocument">;
}

/** Whether the execution refused the signal because it has ended or was deleted. */
function isGone({ answer }: Reply): boolean {
  return isRejection(answer) && ["gone", "not_found"].includes(answer.code);
}

/** The number of ids for which the last ended execution is remembered. */
const REMEMBERED_MAX = 1_000;

/** A start with a signal whose fields have been checked. */
interface CheckedSignal {
  readonly plan: Plan;
  readonly input: string;
  readonly signal: SignalMessage;
}

/** Sends signals together with starts: the execution is started if it does not exist. */
export class SignalStarter {
  readonly #parts: SignalStartParts;
  /** An LRU cache: for each id, the highest number of an execution that is known to have ended. For other ids the executions are read. */
  readonly #ended = new Map<string, number>();

  constructor(parts: SignalStartParts) {
    this.#parts = parts;
  }

  /** Signals the execution with this id, or starts it. Returns the id of the execution that was signalled. */
  async send(
    given: CheckedSignal,
    { ifExists, ...options }: SignalWithStart,
  ): Promise<{ readonly id: string; readonly reply: Reply }> {
    const { plan, input, signal } = given;
    const { id } = options;
    const { store, engine, clock } = this.#parts;
    const start = (execution: string, succession?: Succession): Promise<Reply> => {
      const more = { id: execution, signal, ...defined({ succession }) };
      return startExecution(this.#parts, plan, input, { ...options, ...more }).send();
    };
    if (ifExists === "signal") {
      const reply = await start(id);
      if (!isGone(reply)) return { id, reply };
      return { id, reply: { ...(await sendToNewest(engine, id, signal)), existed: true } };
    }
    const offer = async (n: number): Promise<Reply> => {
      if (n === 1) return start(id);
      const at = successorId(id, n);
      const newest = await awaitNewest(engine, id);
      // If a newer execution exists, this one only gets the signal. It must not be started again.
      if (!isRejection(newest) && numberOf(newest.view.id) > n)
        return { ...(await engine.send(at, signal)), existed: true };
      const place = { first: id, number: n };
      const reply = await start(at, place);
      if (!reply.existed && !isRejection(reply.answer)) await untilKnown(engine, place);
      return reply;
    };
    const document = placeId(id, signal.id);
    let body: string | null = null;
    let reply: Reply | null = null;
    const answerTo = async (question: PlaceQuestion): Promise<boolean | number | null> => {
      switch (question.kind) {
        case "offer": {
          reply = await offer(question.n);
          const isOver = isGone(reply);
          if (isOver) this.#remember(id, await this.#endedWith(id, question.n));
          return !isOver;
        }
        case "ended": {
          const found = await engine.inspect(successorId(id, question.n));
          const hasEnded = !isRejection(found) && found.view.finishedAt !== null;
          if (hasEnded) this.#remember(id, question.n);
          return hasEnded;
        }
        case "read":
          body = await store.getDocument(PLACE_FORM.kind, document);
          return body === null ? null : parseDocument(PLACE_FORM, document, body).n;
        case "note": {
          const swap: Swap = { was: body, body: placeBody(question.n, clock.now()) };
          const isStored = await store.swapDocument(PLACE_FORM.kind, document, swap);
          if (isStored) ({ body } = swap);
          return isStored;
        }
      }
    };
    const placing = placeSignal(() => this.#ended.get(id) ?? 1);
    let step = placing.next();
    while (!step.done) step = placing.next(await answerTo(step.value));
    assert(reply !== null, "the execution that gets the signal must have answered");
    return { id: successorId(id, step.value), reply };
  }

  /**
   * Called after the n-th execution of an id has ended. Returns the highest number of an ended execution, as far as the first
   * execution of the id knows.
   */
  async #endedWith(id: string, n: number): Promise<number> {
    const found = n === 1 ? await this.#parts.engine.inspect(id) : null;
    if (found === null || isRejection(found) || found.newest === undefined) return n;
    const { execution, isOpen } = found.newest;
    return numberOf(execution) - (isOpen ? 1 : 0);
  }

  #remember(id: string, n: number): void {
    const known = this.#ended.get(id) ?? 1;
    this.#ended.delete(id);
    this.#ended.set(id, Math.max(known, n));
    if (this.#ended.size > REMEMBERED_MAX) this.#ended.delete(this.#ended.keys().next().value as string);
  }
}
