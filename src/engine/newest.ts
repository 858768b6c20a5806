/**
 * Finds the execution that an id means. Executions may continue one another under the id of the first one (kernel/succession.ts): the
 * id means the newest, `ID~1` the first, `ID~2` the second. If there is only one execution, one inspection is enough. Otherwise the
 * first execution names the newest, so that few inspections are needed, however many executions there were.
 */
import { addressOf, exactly, numberOf } from "../kernel/definition/names.ts";
import type { Answer, Message } from "../kernel/message.ts";
import { type ExecutionView, hasEnded } from "../kernel/view.ts";
import { isRejection, type Rejection, reject } from "../std/rejection.ts";
import type { Reply } from "./driver-options.ts";
import type { EnginePort } from "./engine-port.ts";
import type { Ending, Inspection, Request } from "./io.ts";

/** Inspects the newest execution of an id. `inspect` reads one execution by its stored id. */
export async function inspectNewest(
  inspect: (execution: string) => Promise<Inspection | Rejection>,
  id: string,
): Promise<Inspection | Rejection> {
  const { stored, isExact } = addressOf(id);
  let found = await inspect(stored);
  while (!isExact && !isRejection(found) && found.newest !== undefined) {
    const { execution, isOpen } = found.newest;
    const next = await inspect(execution);
    if (!isRejection(next)) found = next;
    else if (next.code !== "not_found") return next;
    // The start of the newest execution is stored but not applied yet. Until then, the execution before it is the newest.
    else if (isOpen) return found;
    else return reject("not_found", `execution ${execution}, the newest one of ${id}, has been deleted`);
  }
  return found;
}

/** Inspects the newest execution of an id. If its start is stored but not applied yet, the call waits until it has begun. */
export async function awaitNewest(
  engine: Pick<EnginePort, "inspect" | "watch">,
  id: string,
): Promise<Inspection | Rejection> {
  const { stored: first } = addressOf(id);
  for (;;) {
    const found = await inspectNewest((one) => engine.inspect(one), id);
    if (isRejection(found) || found.newest === undefined) return found;
    if ((await arrival(engine, { first, ...found.newest })) === "never") return found;
  }
}

/** A user has started an execution under this number of an id. Waits until the first execution of the id knows of it. */
export async function untilKnown(
  engine: Pick<EnginePort, "inspect" | "watch">,
  { first, number }: { readonly first: string; readonly number: number },
): Promise<void> {
  for (let isStopped = false; !isStopped; ) {
    let unwatch = (): void => {};
    const changes = new Promise<boolean>((resolve) => {
      unwatch = engine.watch(first, (_, end) => resolve(end === "stopped"));
    });
    try {
      const found = await engine.inspect(first);
      if (isRejection(found) || numberOf(found.newest?.execution ?? first) >= number) return;
      isStopped = await changes;
    } finally {
      unwatch();
    }
  }
}

/**
 * Sends a message to the newest execution of an id. If an earlier execution of the id has applied the message already, it is not
 * applied again.
 */
export async function sendToNewest(
  engine: Pick<EnginePort, "send" | "inspect" | "watch">,
  id: string,
  message: Following,
): Promise<Reply> {
  return (await sendFollowing(engine, id, message)).reply;
}

type Following = Exclude<Request, Extract<Message, { kind: "start" }>>;

/** Does what `sendToNewest` does, and also returns the stored id of the execution that replied. */
export async function sendFollowing(
  engine: Pick<EnginePort, "send" | "inspect" | "watch">,
  id: string,
  message: Following,
): Promise<{ readonly reply: Reply; readonly execution: string }> {
  const following = followNewest(id, message.kind);
  let reply: Reply | undefined;
  let answer: FollowAnswer = null;
  for (;;) {
    const { done, value } = following.next(answer);
    if (done === true) return { reply: reply as Reply, execution: value };
    if (value.kind === "send") {
      reply = await engine.send(value.execution, message);
      answer = reply.answer;
    } else if (value.kind === "successor") {
      const found = await engine.inspect(value.execution);
      answer = isRejection(found) ? null : (found.newest ?? null);
    } else answer = await arrival(engine, value);
  }
}

/** A question that `followNewest` asks its caller about one execution, by its stored id. */
export type FollowQuestion =
  /** Asks the caller to send the message to the execution. The reply is the execution's answer. */
  | { readonly kind: "send"; readonly execution: string }
  /** Asks for the execution that continues this one. The reply is null if this one knows of none. */
  | { readonly kind: "successor"; readonly execution: string }
  /** Asks the caller to wait until an execution whose start is stored has begun. The reply is an `Arrival`. */
  | ({ readonly kind: "arrival" } & Awaited);

/** An execution that continues another one, with the first execution of its id. */
interface Awaited extends NonNullable<Inspection["newest"]> {
  readonly first: string;
}

/**
 * How a wait for the begin of an execution ends. `newer`: the first execution of the id names a newer one now, so the awaited one may
 * have begun, ended and been deleted. `never`: the execution was deleted, or the engine stops.
 */
export type Arrival = "begun" | "newer" | "never";

export type FollowAnswer = Answer | NonNullable<Inspection["newest"]> | Arrival | null;

/**
 * Finds the execution of an id that accepts a message. Yields questions to the caller. Returns the stored id of the execution that
 * answered last.
 */
export function* followNewest(
  id: string,
  kind: Request["kind"],
): Generator<FollowQuestion, string, FollowAnswer> {
  const { stored: first, isExact } = addressOf(id);
  // A retry goes to the newest execution first, because an earlier one would accept it and run again.
  let at = !isExact && kind === "retry" ? ((yield* laterThan(first, first)) ?? first) : first;
  for (;;) {
    const answer = (yield { kind: "send", execution: at }) as Answer;
    if (isExact || !mayHaveContinued(answer, kind)) return at;
    const later = yield* laterThan(first, at);
    if (later === null) return at;
    at = later;
  }
}

/** Finds an execution that continues `at` under the id of `first` and has begun; null if there is none. */
function* laterThan(first: string, at: string): Generator<FollowQuestion, string | null, FollowAnswer> {
  for (let from = at; ; from = first) {
    const next = (yield { kind: "successor", execution: from }) as Inspection["newest"] | null;
    // The first execution of an id learns of each successor a little later. So the execution that it names may be older than `at`.
    if (next === null || next === undefined || numberOf(next.execution) <= numberOf(at)) return null;
    const arrival = (yield { kind: "arrival", first, ...next }) as Arrival;
    if (arrival === "never") return null;
    if (arrival === "begun") return next.execution;
  }
}

/** Whether an execution may have refused a message because another execution continues its work. */
function mayHaveContinued(answer: Answer, kind: Request["kind"]): boolean {
  // A cancelled execution ignores another cancel, so the cancel may be meant for its successor.
  if (!isRejection(answer)) return kind === "cancel" && answer.kind === "ignored";
  // A retry may name tasks that only a later execution has.
  return ["gone", "wrong_status"].includes(answer.code) || (answer.code === "not_found" && kind === "retry");
}

/** Waits until an execution whose start is stored has begun. */
async function arrival(
  engine: Pick<EnginePort, "inspect" | "watch">,
  { execution, isOpen, first }: Awaited,
): Promise<Arrival> {
  for (;;) {
    const unwatch: (() => void)[] = [];
    const changes = new Promise<"stopped" | null>((resolve) => {
      for (const one of [execution, first])
        unwatch.push(engine.watch(one, (_, end) => resolve(end === "stopped" ? end : null)));
    });
    try {
      const found = await engine.inspect(execution);
      if (!isRejection(found)) return "begun";
      if (found.code !== "not_found" || !isOpen) return "never";
      const named = await engine.inspect(first);
      if (!isRejection(named) && numberOf(named.newest?.execution ?? first) > numberOf(execution))
        return "newer";
      if ((await changes) === "stopped") return "never";
    } finally {
      for (const stop of unwatch) stop();
    }
  }
}

/** Returns the end of an execution from its view; null if it has not ended. */
export function endingOf({ view, newest }: Inspection): Ending | null {
  if (!hasEnded(view)) return null;
  const { status, output } = view;
  return {
    status: status as Ending["status"],
    output: output === null ? null : JSON.stringify(output),
    ...(newest === undefined ? {} : { successor: newest.execution }),
  };
}

/** Watches until the last execution of an id has ended. If another execution continues the watched one, the other one is watched next. */
export class EndOfNewest {
  readonly #engine: Pick<EnginePort, "inspect" | "watch">;
  readonly #isExact: boolean;
  readonly #ended: (end: Ending | "stopped", execution: string) => void;
  #watched = "";
  #unwatch: () => void = () => {};
  #isOver = false;

  constructor(
    engine: Pick<EnginePort, "inspect" | "watch">,
    id: string,
    ended: (end: Ending | "stopped", execution: string) => void,
  ) {
    this.#engine = engine;
    this.#ended = ended;
    const { stored, isExact } = addressOf(id);
    this.#isExact = isExact;
    this.#watch(stored);
  }

  /** Inspects the newest execution of the id. From then on, that execution is watched. */
  async inspect(): Promise<Inspection | Rejection> {
    const id = this.#isExact ? exactly(this.#watched) : this.#watched;
    const found = await inspectNewest((one) => this.#engine.inspect(one), id);
    if (!isRejection(found)) this.found(found);
    return found;
  }

  /** Watches the inspected execution, or the execution that continues it and has not begun yet. */
  found({ view, newest }: Inspection): void {
    if (this.#isOver || this.#isExact) return;
    if (hasEnded(view) && newest !== undefined) this.#follow(newest.execution);
    else if (view.id !== this.#watched) this.#follow(view.id);
  }

  /** Ends the watch without calling the listener. */
  stop(): void {
    this.#isOver = true;
    this.#unwatch();
  }

  #watch(execution: string): void {
    this.#unwatch();
    this.#watched = execution;
    this.#unwatch = this.#engine.watch(execution, (_, end) => {
      if (end !== null) this.#onEnd(execution, end);
    });
  }

  /** Watches a later execution of the id, which may have ended already. */
  #follow(execution: string): void {
    this.#watch(execution);
    void this.#engine.inspect(execution).then((found) => {
      const end = isRejection(found) ? null : endingOf(found);
      if (end !== null) this.#onEnd(execution, end);
    });
  }

  #onEnd(execution: string, end: Ending | "stopped"): void {
    if (this.#isOver || execution !== this.#watched) return;
    if (end !== "stopped" && end.successor !== undefined && !this.#isExact)
      return this.#follow(end.successor);
    this.stop();
    this.#ended(end, execution);
  }
}

/** Whether this view is of the last execution of an id. */
export function isLast(
  id: string,
  { view, newest }: { view: ExecutionView; newest?: Inspection["newest"] },
): boolean {
  return hasEnded(view) && (newest === undefined || addressOf(id).isExact);
}
