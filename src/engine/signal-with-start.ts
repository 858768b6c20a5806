/** Signals: their messages, and the start with a signal. Such a start is one message, so that both are in one commit. */

import { LIMITS } from "../kernel/definition/definition.ts";
import type { Plan } from "../kernel/definition/plan.ts";
import { successorId } from "../kernel/definition/successor-id.ts";
import type { Answer, SignalMessage } from "../kernel/message.ts";
import { checkSignal } from "../protocol/check-request.ts";
import { newMessageId } from "../std/id.ts";
import { toStoredText } from "../std/json.ts";
import { isRejection, type Rejection } from "../std/rejection.ts";
import type { Reply } from "./driver-options.ts";
import { type EnginePort, type StartOptions, type StartParts, startExecution } from "./engine-port.ts";

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

/** If the execution exists, it is signalled. With `new`, an execution that has ended is followed by a new one. */
export type IfExists = "signal" | "new";

export interface SignalWithStart extends StartOptions {
  readonly id: string;
  readonly ifExists: IfExists;
}

/** Signals the execution with this id, or starts it. Returns the id of the execution that was signalled. */
export async function signalWithStart(
  parts: StartParts,
  { plan, input, signal }: { readonly plan: Plan; readonly input: string; readonly signal: SignalMessage },
  { ifExists, ...options }: SignalWithStart,
): Promise<{ readonly id: string; readonly reply: Reply } | Rejection> {
  for (let n = 1; ; ) {
    const id = successorId(options.id, n);
    const reply = await startExecution(parts, plan, input, { ...options, id, signal }).send();
    const isGone = isRejection(reply.answer) && reply.answer.code === "gone";
    if (!isGone || ifExists === "signal") return { id, reply };
    const last = await lastEnded(parts.engine, options.id, n);
    const repeated = await findRepeat(parts.engine, options.id, { signal, after: n, last });
    if (repeated !== null) return repeated;
    n = last + 1;
  }
}

/** How many ended executions of an id are asked for a signal before the next one is started. */
const ASKED_MAX = 8;

/** Finds the execution that has the signal already, among those that ended last: the request may be a repeat. */
async function findRepeat(
  engine: EnginePort,
  id: string,
  { signal, after, last }: { readonly signal: SignalMessage; readonly after: number; readonly last: number },
): Promise<{ readonly id: string; readonly reply: Reply } | null> {
  for (let n = last; n > after && n > last - ASKED_MAX; n--) {
    const asked = successorId(id, n);
    const reply = await engine.send(asked, signal);
    if (!isRejection(reply.answer)) return { id: asked, reply: { ...reply, existed: true } };
  }
  return null;
}

/**
 * The highest number of an execution that has ended. Each begins after the end of the one before, so a binary search finds it.
 */
async function lastEnded(engine: EnginePort, id: string, known: number): Promise<number> {
  const hasEnded = async (n: number) => {
    const found = await engine.inspect(successorId(id, n));
    return !isRejection(found) && found.view.finishedAt !== null;
  };
  let ended = known;
  let step = 1;
  for (; await hasEnded(ended + step); step *= 2) ended += step;
  for (; step > 1; step = step / 2) if (await hasEnded(ended + step / 2)) ended += step / 2;
  return ended;
}
