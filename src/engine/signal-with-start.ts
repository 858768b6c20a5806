/** Signals: their messages, and the start with a signal. Such a start is one message, so that both are in one commit. */

import { LIMITS } from "../kernel/definition/definition.ts";
import type { Plan } from "../kernel/definition/plan.ts";
import { successorId } from "../kernel/definition/successor-id.ts";
import type { Answer, SignalMessage } from "../kernel/message.ts";
import { checkSignal } from "../protocol/check-request.ts";
import { assert } from "../std/assert.ts";
import { newMessageId } from "../std/id.ts";
import { toStoredText } from "../std/json.ts";
import { isRejection, type Rejection } from "../std/rejection.ts";
import { parseDocument } from "../store/document-form.ts";
import type { Store, Swap } from "../store/store.ts";
import type { Reply } from "./driver-options.ts";
import { type StartOptions, type StartParts, startExecution } from "./engine-port.ts";
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
 * Whether a wait has taken a signal that was sent, or why the signal was refused. A node of version 0.2 does not say whether a
 * wait has taken it.
 */
export function signalState(answer: Answer): "delivered" | "kept" | Rejection {
  if (isRejection(answer)) return answer;
  return (answer.kind === "applied" && answer.signal) || "kept";
}

export interface SignalWithStart extends StartOptions {
  readonly id: string;
  /** If the execution exists, it is signalled. With `startNewWhenDone`, one that has ended is followed by a new one. */
  readonly ifExists: "signal" | "startNewWhenDone";
}

/** The parts of the process that a start with a signal needs. */
export interface SignalStartParts extends StartParts {
  readonly store: Pick<Store, "getDocument" | "swapDocument">;
}

/** Signals the execution with this id, or starts it. Returns the id of the execution that was signalled. */
export async function signalWithStart(
  parts: SignalStartParts,
  { plan, input, signal }: { readonly plan: Plan; readonly input: string; readonly signal: SignalMessage },
  { ifExists, ...options }: SignalWithStart,
): Promise<{ readonly id: string; readonly reply: Reply }> {
  const offer = (id: string): Promise<Reply> =>
    startExecution(parts, plan, input, { ...options, id, signal }).send();
  if (ifExists === "signal") return { id: options.id, reply: await offer(options.id) };
  const { store, engine, clock } = parts;
  const { kind } = PLACE_FORM;
  const document = placeId(options.id, signal.id);
  let body: string | null = null;
  let reply: Reply | null = null;
  const answerTo = async (question: PlaceQuestion): Promise<boolean | number | null> => {
    switch (question.kind) {
      case "offer":
        reply = await offer(successorId(options.id, question.n));
        return !(isRejection(reply.answer) && reply.answer.code === "gone");
      case "ended": {
        const found = await engine.inspect(successorId(options.id, question.n));
        return !isRejection(found) && found.view.finishedAt !== null;
      }
      case "read":
        body = await store.getDocument(kind, document);
        return body === null ? null : parseDocument(PLACE_FORM, document, body).n;
      case "note": {
        const swap: Swap = { was: body, body: placeBody(question.n, clock.now()) };
        const isStored = await store.swapDocument(kind, document, swap);
        if (isStored) ({ body } = swap);
        return isStored;
      }
    }
  };
  const placing = placeSignal();
  let step = placing.next();
  while (!step.done) step = placing.next(await answerTo(step.value));
  assert(reply !== null, "the execution that gets a signal has answered");
  return { id: successorId(options.id, step.value), reply };
}
