/** Finds commands of a topic that are lost at the broker, settled, or too many to keep. */
import type { EnginePort } from "../../engine/engine-port.ts";
import type { QueueCounts } from "../../net/amqp/connection.ts";
import type { Clock } from "../../std/clock.ts";
import type { BrokerSettings } from "../settings.ts";
import type { Command, Topic } from "./topic.ts";

/** Checks of an empty topic without consumers until its commands count as lost. */
const STRIKES_MAX = 2;

/** Commands of a topic that are kept here; others come back when the engine asks for them (`Topics.adopt`). */
const KEPT_MAX = 30_000;
/** Commands that are sent again at a time, and the pause between two portions. */
const PORTION = 500;
const PORTION_MS = 250;

interface Lost {
  /** Some commands are not confirmed, and should be by now. */
  readonly stuck: boolean;
  /** Commands to be sent again; null: none counts as lost. */
  readonly gone: readonly (readonly [string, Command])[] | null;
}

/** Finds the lost commands of a topic whose queue has no message ready, or which has no queue (`counts` is null). */
export function findLost(
  topic: Topic,
  counts: QueueCounts | null,
  at: {
    readonly now: number;
    readonly settings: BrokerSettings;
    readonly silentMs: (heardAt: number) => number;
  },
): Lost {
  const { now, settings, silentMs } = at;
  let stuck = false;
  for (const { sentAt, isConfirmed } of topic.open.values())
    if (!isConfirmed && sentAt !== null && now - sentAt >= settings.answerMs) stuck = true;
  const gone = [...topic.open].filter(
    ([, { sentAt, isConfirmed }]) => sentAt !== null && (stuck || isConfirmed),
  );
  if (gone.length === 0) {
    topic.strikes = 0;
    return { stuck, gone: null };
  }
  // A worker may take long: commands are sent again less and less often.
  const isSilent =
    topic.silences < settings.silencesMax &&
    silentMs(topic.heardAt) >= settings.silenceMs * 2 ** topic.silences;
  if (counts === null) topic.declared = null;
  if (counts !== null && counts.consumers === 0) topic.strikes++;
  if (counts !== null && topic.strikes < STRIKES_MAX && !isSilent) return { stuck, gone: null };
  if (isSilent) topic.silences++;
  topic.strikes = 0;
  topic.heardAt = now;
  return { stuck, gone };
}

/** Commands that are settled or belong to another node, as far as memory shows: most executions are not in memory. */
export function settledIn(
  topic: Topic,
  { engine, worker }: { readonly engine: EnginePort; readonly worker: string },
): readonly string[] {
  const settled: string[] = [];
  for (const [key, { at }] of topic.open) {
    const isOver = engine.isResident(at.execution) && engine.holderOf(at)?.worker !== worker;
    if (isOver || !engine.isOwn(at.execution)) settled.push(key);
  }
  return settled;
}

/** The oldest confirmed commands, if there are too many to keep. */
export function overflowOf({ open }: Topic): readonly (readonly [string, Command])[] {
  const overflow: (readonly [string, Command])[] = [];
  for (const entry of open) {
    if (open.size - overflow.length <= KEPT_MAX) break;
    if (entry[1].isConfirmed) overflow.push(entry);
  }
  return overflow;
}

/** Sends commands again in portions, because their executions have to be loaded into memory for it. */
export function sendInPortions<T>(all: readonly T[], clock: Clock, send: (one: T) => unknown): void {
  for (const one of all.slice(0, PORTION)) send(one);
  const rest = all.slice(PORTION);
  if (rest.length > 0) clock.after(PORTION_MS, () => sendInPortions(rest, clock, send));
}
