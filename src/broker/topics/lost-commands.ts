/** Which commands of a topic are gone from the broker, as far as its queue tells, and which need no looking after here. */
import type { EnginePort } from "../../engine/engine-port.ts";
import type { Clock } from "../../std/clock.ts";
import type { QueueCounts } from "../broker-link.ts";
import type { BrokerSettings } from "../settings.ts";
import type { Command, Topic } from "./topic.ts";

/** Looks at an empty topic without consumers before its commands are taken for lost. */
const STRIKES_MAX = 2;

/** Commands at a topic that are looked after by the bridge; others are when the engine asks for it (`Topics.check`). */
const KEPT_MAX = 30_000;
/** Commands that are sent again at a time, and how long after each other. */
const PORTION = 500;
const PORTION_MS = 250;

interface Lost {
  /** Commands on their way are not confirmed, and should be by now. */
  readonly stuck: boolean;
  /** Commands to be sent again; null: none is taken for lost now. */
  readonly gone: readonly (readonly [string, Command])[] | null;
}

/** Judges a topic that has no message ready (`counts` null: that has no queue). */
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
  // What is on its way is the publisher's; it should be there by now.
  let stuck = false;
  for (const { sentAt, isThere } of topic.open.values())
    if (!isThere && sentAt !== null && now - sentAt >= settings.answerMs) stuck = true;
  const gone = [...topic.open].filter(([, { sentAt, isThere }]) => sentAt !== null && (stuck || isThere));
  if (gone.length === 0) {
    topic.strikes = 0;
    return { stuck, gone: null };
  }
  // Somebody may be at work for long: it is sent again less and less often.
  const isSilent =
    topic.silences < settings.silencesMax &&
    silentMs(topic.heardAt) >= settings.silenceMs * 2 ** topic.silences;
  if (counts === null) topic.isMade = null;
  if (counts !== null && counts.consumers === 0) topic.strikes++;
  if (counts !== null && topic.strikes < STRIKES_MAX && !isSilent) return { stuck, gone: null };
  if (isSilent) topic.silences++;
  topic.strikes = 0;
  topic.heardAt = now;
  return { stuck, gone };
}

/** Commands that others have settled, as far as it can be seen: most executions are not in memory. */
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

/** The oldest commands at the broker, if there are too many to look after. */
export function overflowOf({ open }: Topic): readonly (readonly [string, Command])[] {
  const overflow: (readonly [string, Command])[] = [];
  for (const entry of open) {
    if (open.size - overflow.length <= KEPT_MAX) break;
    if (entry[1].isThere) overflow.push(entry);
  }
  return overflow;
}

/** Sends commands again some at a time, since their executions have to come into memory for it. */
export function sendInPortions<T>(all: readonly T[], clock: Clock, send: (one: T) => unknown): void {
  for (const one of all.slice(0, PORTION)) send(one);
  const rest = all.slice(PORTION);
  if (rest.length > 0) clock.after(PORTION_MS, () => sendInPortions(rest, clock, send));
}
