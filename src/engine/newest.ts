/**
 * Finds the execution that an id means. Executions follow one another under the id of the first one (kernel/succession.ts): the id
 * means the newest, `ID~1` the first, `ID~2` the second. An execution without a successor is found without another question; one
 * with successors names the newest, so that there are few hops, however many there have been.
 */
import { addressOf, exactly, numberOf } from "../kernel/definition/names.ts";
import type { Message } from "../kernel/message.ts";
import { type ExecutionView, hasEnded } from "../kernel/view.ts";
import { isRejection, type Rejection, reject } from "../std/rejection.ts";
import type { Reply } from "./driver-options.ts";
import type { EnginePort } from "./engine-port.ts";
import type { Ending, Inspection, Request } from "./io.ts";

/** The state of the newest execution of an id. `inspect` reads one execution by its stored id. */
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
    // Its start is on its way. Until it arrives, the execution before is the newest.
    else if (isOpen) return found;
    else return reject("not_found", `execution ${execution}, the newest of ${id}, has been deleted`);
  }
  return found;
}

/** Inspects the newest execution of an id. If its start is stored and not applied yet, the call waits until it has begun. */
export async function awaitNewest(
  engine: Pick<EnginePort, "inspect" | "watch">,
  id: string,
): Promise<Inspection | Rejection> {
  for (;;) {
    const found = await inspectNewest((one) => engine.inspect(one), id);
    if (isRejection(found) || found.newest === undefined) return found;
    if (!(await hasArrived(engine, found.newest.execution, found.newest.isOpen))) return found;
  }
}

/** Waits until the first execution of an id knows the one that a user has started under this number. */
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

/** Sends a message to the newest execution of an id. A message that an earlier one has applied is not applied again. */
export async function sendToNewest(
  engine: Pick<EnginePort, "send" | "inspect" | "watch">,
  id: string,
  message: Following,
): Promise<Reply> {
  return (await sendFollowing(engine, id, message)).reply;
}

type Following = Exclude<Request, Extract<Message, { kind: "start" }>>;

/** Sends a message as `sendToNewest` does. Returns the stored id of the execution that has replied, too. */
export async function sendFollowing(
  engine: Pick<EnginePort, "send" | "inspect" | "watch">,
  id: string,
  message: Following,
): Promise<{ readonly reply: Reply; readonly execution: string }> {
  const { stored, isExact } = addressOf(id);
  let at = stored;
  for (;;) {
    const reply = await engine.send(at, message);
    const replied = { reply, execution: at };
    if (isExact || !mayHaveContinued(reply, message)) return replied;
    const found = await engine.inspect(at);
    if (isRejection(found) || found.newest === undefined) return replied;
    const { execution, isOpen } = found.newest;
    if (!(await hasArrived(engine, execution, isOpen))) return replied;
    at = execution;
  }
}

/** Whether an execution may have refused a message because another one has its work. */
function mayHaveContinued({ answer }: Reply, { kind }: Request): boolean {
  if (!isRejection(answer)) return false;
  // A retry names tasks, which an earlier execution may not have.
  return ["gone", "wrong_status"].includes(answer.code) || (answer.code === "not_found" && kind === "retry");
}

/** Waits until an execution whose start is stored has begun; false if it was deleted, or if the engine stops. */
async function hasArrived(
  engine: Pick<EnginePort, "inspect" | "watch">,
  execution: string,
  isOpen: boolean,
): Promise<boolean> {
  let unwatch = (): void => {};
  const begins = new Promise<boolean>((resolve) => {
    unwatch = engine.watch(execution, (_, end) => resolve(end !== "stopped"));
  });
  try {
    const found = await engine.inspect(execution);
    if (!isRejection(found)) return true;
    return found.code === "not_found" && isOpen ? await begins : false;
  } finally {
    unwatch();
  }
}

/** The end of an execution from its view; null if it has not ended. */
export function endingOf({ view, newest }: Inspection): Ending | null {
  if (!hasEnded(view)) return null;
  const { status, output } = view;
  return {
    status: status as Ending["status"],
    output: output === null ? null : JSON.stringify(output),
    ...(newest === undefined ? {} : { successor: newest.execution }),
  };
}

/** Watches for the end of an id: an execution that another one follows has not been the last. */
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

  /** The state of the newest execution, which is watched from then on. */
  async inspect(): Promise<Inspection | Rejection> {
    const id = this.#isExact ? exactly(this.#watched) : this.#watched;
    const found = await inspectNewest((one) => this.#engine.inspect(one), id);
    if (!isRejection(found)) this.found(found);
    return found;
  }

  /** Watches the execution of an inspection, or the one that follows it and has not begun. */
  found({ view, newest }: Inspection): void {
    if (this.#isOver || this.#isExact) return;
    if (hasEnded(view) && newest !== undefined) this.#follow(newest.execution);
    else if (view.id !== this.#watched) this.#follow(view.id);
  }

  /** Ends the watch, without a call of the listener. */
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

  /** Watches a later execution. It may have ended before it is watched. */
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

/** Whether a view is that of the last execution of an id. */
export function isLast(
  id: string,
  { view, newest }: { view: ExecutionView; newest?: Inspection["newest"] },
): boolean {
  return hasEnded(view) && (newest === undefined || addressOf(id).isExact);
}
