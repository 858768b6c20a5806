/**
 * Sends updates and waits for their answers, on the caller's side. The answer is an event of the journal, so a repeat of an update
 * finds the same answer, at any node and as long as the journal is kept. If another execution continues this one, it gets the updates
 * that were not read, so the caller watches that execution next.
 */
import { addressOf, refuseName } from "../kernel/definition/names.ts";
import type { Finished } from "../kernel/event.ts";
import type { Answer, SignalMessage } from "../kernel/message.ts";
import { updateSignal } from "../kernel/updates.ts";
import { readAnswer, type UpdateAnswer } from "../protocol/update-answer.ts";
import { Bell } from "../std/bell.ts";
import { isRejection, type Rejection, reject } from "../std/rejection.ts";
import { readEvents } from "../store/read-events.ts";
import type { ExecutionStore } from "../store/store.ts";
import type { EnginePort, StartParts } from "./engine-port.ts";
import { sendFollowing } from "./newest.ts";
import { signalMessage, signalState } from "./signal-with-start.ts";

/** An update that an execution has accepted. */
export interface SentUpdate {
  readonly id: string;
  /** The stored id of the execution that has accepted the update. */
  readonly execution: string;
  /** Whether the caller meant only this execution, and not those that continue it. */
  readonly isExact: boolean;
  readonly name: string;
  /** The sequence number of the event with the update. */
  readonly seq: number;
  /** "delivered" if a wait has taken the update, "kept" if it waits to be read. */
  readonly state: "delivered" | "kept";
}

/** Sends an update to an execution. A repeat with the same id changes nothing. */
export async function sendUpdate(
  parts: StartParts,
  execution: string,
  update: { readonly name: string; readonly data?: unknown; readonly id?: string },
): Promise<SentUpdate | Rejection> {
  const { name } = update;
  // Checks the name with the prefix of updates, which takes a few bytes of the longest name allowed.
  const refused = refuseName(updateSignal(name), "name", "the name of an update");
  if (refused !== null) return refused;
  const message = signalMessage(parts, update);
  if (isRejection(message)) return message;
  const sent: SignalMessage = { ...message, signal: updateSignal(name) };
  const { isExact } = addressOf(execution);
  const { reply, execution: replied } = await sendFollowing(parts.engine, execution, sent);
  const found = await findTaker(parts.engine, { answer: reply.answer, execution: replied }, sent);
  if (isRejection(found)) return found;
  const state = signalState(found.answer);
  if (isRejection(state)) return state;
  const seq = found.answer.kind === "applied" ? found.answer.seq : CREATED_SEQ;
  return { id: message.id, execution: found.execution, isExact, name, seq, state };
}

/**
 * The sequence number of the event that creates an execution. That event has the ids of messages that earlier executions of the id
 * applied.
 */
const CREATED_SEQ = 1;

/**
 * Finds the execution whose journal has the update. An execution that continues others knows the ids of their messages, and so
 * answers a repeated update. But the update and its answer are in the journal of the execution that got it first.
 */
async function findTaker(
  engine: Pick<EnginePort, "send" | "inspect">,
  replied: { readonly answer: Answer; readonly execution: string },
  sent: SignalMessage,
): Promise<{ readonly answer: Exclude<Answer, Rejection>; readonly execution: string } | Rejection> {
  for (let { answer, execution } = replied; ; ) {
    if (isRejection(answer)) return answer;
    if (answer.kind !== "applied" || answer.seq > CREATED_SEQ) return { answer, execution };
    const found = await engine.inspect(execution);
    if (isRejection(found)) return found;
    const before = found.view.continues;
    if (before === undefined) return { answer, execution };
    execution = before;
    ({ answer } = await engine.send(execution, sent));
    if (isRejection(answer) && answer.code === "not_found")
      return reject("gone", `the update was sent to execution ${execution}, which has been deleted`);
  }
}

type WatchParts = { readonly engine: Pick<EnginePort, "watch">; readonly store: ExecutionStore };

/** Watches the journals of an execution, and of those that continue it, for the answer to an update. */
export class AnswerWatch {
  readonly #parts: WatchParts;
  readonly #bell = new Bell();
  #unwatch: () => void = () => {};

  constructor(parts: WatchParts) {
    this.#parts = parts;
  }

  /**
   * Resolves with the answer to the update; with a rejection if the execution ends without an answer; with `stopped` after `stop` was
   * called.
   */
  async answerTo(update: SentUpdate): Promise<UpdateAnswer | Rejection | "stopped"> {
    let { execution, seq: next } = update;
    let end: Finished | null = null;
    this.#watch(execution);
    while (await this.#bell.next()) {
      for await (const { seq, event } of readEvents(this.#parts.store, execution, next)) {
        next = seq + 1;
        if (event.kind === "task.step" && event.answers === update.id)
          return readAnswer(event.result ?? "") ?? { value: null };
        if (event.kind === "finished") end = event;
        else if (event.kind === "retried" || event.kind === "tasks.retried") end = null;
      }
      if (end?.continuedAs !== undefined && !update.isExact) {
        execution = end.continuedAs;
        [next, end] = [1, null];
        this.#watch(execution);
      } else if (end !== null) return endedWithoutAnswer(execution, update.name);
    }
    return "stopped";
  }

  /** Ends the waiting. */
  stop(): void {
    this.#unwatch();
    this.#bell.stop();
  }

  /** Watches this execution instead of the last one, and has its journal read at once. */
  #watch(execution: string): void {
    this.#unwatch();
    this.#unwatch = this.#parts.engine.watch(execution, (_, end) =>
      end === "stopped" ? this.#bell.stop() : this.#bell.ring(),
    );
    this.#bell.ring();
  }
}

function endedWithoutAnswer(execution: string, update: string): Rejection {
  return reject("gone", `execution ${execution} has ended without an answer to the update "${update}"`, {
    hint: "read the events of the execution to see how it ended",
  });
}
