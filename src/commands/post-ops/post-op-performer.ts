/**
 * Performs post-operations for an engine: stores results of commands in state stores, and broadcasts them. The result is read from the
 * journal. A failure is returned as an outcome, which is `fatal` if a retry would not help.
 */

import type { PostOps, PostOpTask } from "../../engine/post-ops/post-ops.ts";
import { decodeEntry } from "../../kernel/journal/journal-entry.ts";
import type { PostOpOutcome } from "../../kernel/message.ts";
import { byteLength } from "../../std/json.ts";
import { type Rejection, RondoError, reject } from "../../std/rejection.ts";
import { toError } from "../../std/to-error.ts";
import { TransientMap } from "../../std/transient-map.ts";
import { type ExecutionStore, StoreFault } from "../../store/store.ts";
import type { StateEntry, StatePlace } from "../state/state-store.ts";
import type { StateStores } from "../state/state-stores.ts";
import { type BroadcastParts, sendBroadcast } from "./broadcast.ts";

export interface PerformerParts extends BroadcastParts {
  readonly store: ExecutionStore;
  readonly stateStores: StateStores;
}

/** The result of a command, and the time of its journal entry. */
interface Result {
  readonly text: string;
  readonly at: number;
}

/** The longest time of one try, even if the command asks for more. */
const TRY_MS_MAX = 60_000;
const READ_MS = 10_000;
/** The longest key of a state store, in bytes. All supported databases can index keys of this length. */
const PLACE_BYTES_MAX = 2_000;

export class Performer implements PostOps {
  readonly #parts: PerformerParts;
  /** Broadcasts whose bodies are being read, by the name of their receipt. They are sent in the order in which they were requested. */
  readonly #turns = new TransientMap<string, Promise<unknown>>();

  constructor(parts: PerformerParts) {
    this.#parts = parts;
  }

  /** Tries the post-operation once. */
  async perform(task: PostOpTask, signal: AbortSignal): Promise<PostOpOutcome> {
    try {
      return task.op === "persistence"
        ? await this.#persist(task, signal)
        : await this.#broadcast(task, signal);
    } catch (thrown) {
      return failure(thrown);
    }
  }

  /** Returns why no value can be stored at a place, according to the place and the settings; null if a value can be stored there. */
  refusalOf(place: StatePlace): Rejection | null {
    return this.#parts.stateStores.refusalOf(place.store) ?? wrongPlace(place);
  }

  /** Reads the value at a place of a state store; null if there is none. */
  async readState(place: StatePlace): Promise<StateEntry | null | Rejection> {
    const refusal = this.refusalOf(place);
    if (refusal !== null) return refusal;
    try {
      const opened = await this.#parts.stateStores.open(place.store);
      return await opened.get(place, { timeoutMs: READ_MS });
    } catch (thrown) {
      // Faults of Rondo's own store are thrown, because the caller handles them.
      if (thrown instanceof StoreFault || !(thrown instanceof Error)) throw thrown;
      return reject(
        "store_unavailable",
        `the state store "${place.store}" does not answer: ${thrown.message}`,
      );
    }
  }

  /** Closes the connections to state stores. */
  close(): Promise<void> {
    return this.#parts.stateStores.close();
  }

  async #persist(task: PostOpTask & { op: "persistence" }, signal: AbortSignal): Promise<PostOpOutcome> {
    const { execution, project, receipt, plan } = task;
    const { store, key, partition } = plan;
    const place: StatePlace = { store, key, partition };
    const wrong = wrongPlace(place);
    if (wrong !== null) return fatal("WrongPlace", wrong.message);
    const result = await this.#result(task);
    if (result === null) return noResult(task);
    const opened = await this.#parts.stateStores.open(store);
    const verdict = await opened.put(
      place,
      { value: result.text, version: { at: result.at, execution, seq: receipt }, project },
      { timeoutMs: Math.min(plan.timeoutMs, TRY_MS_MAX), signal },
    );
    if (verdict !== "foreign") return { kind: "done" };
    return fatal(
      "ForeignState",
      `"${key}" in the state store "${store}" belongs to another project than "${project}"; use another key`,
    );
  }

  async #broadcast(task: PostOpTask & { op: "broadcast" }, signal: AbortSignal): Promise<PostOpOutcome> {
    const { url, timeoutMs } = task.plan;
    const body = await this.#inTurn(`${task.execution}/${task.receipt}`, this.#bodyOf(task));
    if (body === undefined) return noResult(task);
    const limitMs = Math.min(timeoutMs, TRY_MS_MAX);
    return sendBroadcast(this.#parts, { id: task.id, url, body, timeoutMs: limitMs, signal });
  }

  async #bodyOf(task: PostOpTask & { op: "broadcast" }): Promise<string | undefined> {
    const { staticPayload } = task.plan;
    return staticPayload === undefined ? (await this.#result(task))?.text : JSON.stringify(staticPayload);
  }

  /** Waits until all earlier calls with the same name are ready or have failed, then resolves with the value of `ready`. */
  async #inTurn<T>(name: string, ready: Promise<T>): Promise<T> {
    const turn = Promise.allSettled([this.#turns.get(name), ready]);
    this.#turns.set(name, turn);
    await turn;
    if (this.#turns.get(name) === turn) this.#turns.delete(name);
    return ready;
  }

  async #result({ execution, receipt }: PostOpTask): Promise<Result | null> {
    const entries = await this.#parts.store.readJournal({ execution, from: receipt, to: receipt });
    for (const recorded of entries.flatMap(decodeEntry)) {
      const { seq, at, event } = recorded;
      if (seq !== receipt || event.kind !== "command.receipted" || event.result === null) continue;
      return { text: event.result, at };
    }
    return null;
  }
}

/** Refuses keys that some kind of state store could not keep. */
function wrongPlace({ key, partition }: StatePlace): Rejection | null {
  const both = `${key}${partition ?? ""}`;
  const isFine = !/\p{Cc}/u.test(both) && both.isWellFormed() && byteLength(both) <= PLACE_BYTES_MAX;
  // The keys "", "." and ".." would change the path of a URL.
  if (!["", ".", ".."].includes(key) && isFine) return null;
  return reject(
    "invalid_input",
    `a key and its partition must be texts without control characters, of at most ${PLACE_BYTES_MAX} bytes together, and a key must not be "." or ".."`,
    { path: "key" },
  );
}

function failure(thrown: unknown): PostOpOutcome {
  const error = toError(thrown);
  const { code, isFinal } = error as { code?: unknown; isFinal?: unknown };
  const isFatal = error instanceof RondoError || isFinal === true;
  return {
    kind: "failed",
    error: {
      name: error.name,
      message: error.message || error.name,
      ...(typeof code === "string" ? { code } : {}),
    },
    ...(isFatal ? { fatal: true } : {}),
  };
}

function fatal(name: string, message: string): PostOpOutcome {
  return { kind: "failed", error: { name, message }, fatal: true };
}

function noResult({ receipt }: PostOpTask): PostOpOutcome {
  return fatal("NoResult", `event ${receipt} of the journal has no result`);
}
