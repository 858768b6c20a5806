/**
 * Sends a request to the owner of an execution, and repeats it until there is an answer. The time limit is a little longer than a lease,
 * because the partitions of a dead node are free when its lease has ended. A request may arrive twice.
 */
import { backOffMs } from "../../std/back-off.ts";
import type { Clock } from "../../std/clock.ts";
import type { Random } from "../../std/random.ts";
import { type Rejection, reject } from "../../std/rejection.ts";
import { sleep } from "../../std/within.ts";
import type { Owners } from "./owners.ts";
import type { CallOptions, PeerAnswer } from "./peer-client.ts";

export interface AskParts {
  readonly owners: Owners;
  readonly clock: Pick<Clock, "after">;
  readonly random: Random;
  /** A monotonic clock, in milliseconds. */
  readonly monotonic: () => number;
  /** For how long the request is repeated if there is no answer. */
  readonly patienceMs: number;
  /** Whether this node has stopped. */
  readonly isOver: () => boolean;
}

/** Functions that ask a question. `here` asks this node's own engine, which may answer `not-owner`; `there` asks another node. */
export interface Question<T> {
  readonly execution: string;
  readonly here: () => Promise<PeerAnswer<T>>;
  /** Asks another node. `isRepeat` says that the same request may have arrived there before. */
  readonly there: (url: string, options: CallOptions, isRepeat: boolean) => Promise<PeerAnswer<T>>;
}

/** The back-off between two requests to a node. */
export const PEER_RETRY = { minMs: 50, maxMs: 1_000 } as const;

/** How long a request is repeated: the length of a lease, plus the time to notice its end and to take the partition. */
export function patienceFor(leaseMs: number): number {
  return leaseMs + 5_000;
}

/** Asks the owner and returns its answer. Returns a rejection if no answer arrived in time, or if a repeat cannot succeed. */
export async function askOwner<T>(parts: AskParts, question: Question<T>): Promise<T | Rejection> {
  const { owners, monotonic, isOver, random } = parts;
  let inVainSince: number | null = null;
  let mayHaveArrived = false;
  for (let tries = 0; ; tries++) {
    const answer: PeerAnswer<T> = await askOnce(parts, question, mayHaveArrived);
    if (answer.kind === "answered") return answer.value;
    if (answer.kind === "refused") return answer.rejection;
    if (isOver()) return reject("not_ready", "this node has stopped", { hint: "ask another node" });
    mayHaveArrived ||= answer.kind === "unreached";
    inVainSince ??= monotonic();
    if (monotonic() - inVainSince >= parts.patienceMs) return noOwner(question.execution, answer);
    owners.refresh();
    await moved(parts, question.execution, backOffMs(tries, { ...PEER_RETRY, random }));
  }
}

async function askOnce<T>(
  { owners }: AskParts,
  { execution, here, there }: Question<T>,
  isRepeat: boolean,
): Promise<PeerAnswer<T>> {
  const owner = owners.ownerOf(execution);
  if (owner.kind === "me") return here();
  if (owner.kind === "nobody") return { kind: "not-owner" };
  // A node that does not answer may be dead. The request is aborted as soon as another node owns the execution.
  const abort = new AbortController();
  const term = owners.termOf(execution);
  const unlisten = owners.onChange(() => {
    if (owners.termOf(execution) !== term) abort.abort();
  });
  try {
    return await there(owner.url, { signal: abort.signal }, isRepeat);
  } finally {
    unlisten();
  }
}

/** Resolves when another node owns the execution, or after this time. */
export function moved(
  { owners, clock }: Pick<AskParts, "owners" | "clock">,
  execution: string,
  ms: number,
): Promise<void> {
  const term = owners.termOf(execution);
  const abort = new AbortController();
  const unlisten = owners.onChange(() => {
    if (owners.termOf(execution) !== term) abort.abort();
  });
  return sleep(clock, ms, abort.signal).finally(unlisten);
}

function noOwner(execution: string, last: PeerAnswer<unknown>): Rejection {
  const why = last.kind === "unreached" ? last.why : "no node owns it";
  return reject("not_ready", `the owner of execution ${execution} could not be reached: ${why}`, {
    hint: "try again a little later; `rondo ring` shows the nodes and their partitions",
  });
}
