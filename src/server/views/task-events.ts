/** Reads the events of one task from the journal, each with the fields that concern this task. */
import { decodeEntry } from "../../kernel/journal/journal-entry.ts";
import { publicEvent } from "../../kernel/journal/public-event.ts";
import type { ExecutionStore } from "../../store/store.ts";

/** The most events that are read, the newest ones. */
const EVENTS_MAX = 200;
/** The most rows that are read at the same time. */
const TOGETHER = 16;

/** An event of a task. */
export interface TaskEvent {
  readonly seq: number;
  readonly at: number;
  readonly kind: string;
  readonly attempt?: number;
  readonly [field: string]: unknown;
}

/** Reads the events with these sequence numbers, in their order. */
export async function readTaskEvents(
  store: Pick<ExecutionStore, "readJournal">,
  options: { readonly execution: string; readonly task: number; readonly seqs: readonly number[] },
): Promise<TaskEvent[]> {
  const { execution, task } = options;
  const seqs = options.seqs.slice(-EVENTS_MAX);
  const events: TaskEvent[] = [];
  for (let from = 0; from < seqs.length; from += TOGETHER) {
    const together = seqs.slice(from, from + TOGETHER).map(async (seq) => {
      const [entry] = await store.readJournal({ execution, from: seq, to: seq, rowsMax: 1 });
      const recorded = entry === undefined ? [] : decodeEntry(entry);
      for (const one of recorded)
        if (one.seq === seq) return ofTask(publicEvent(execution, one, "full"), task);
      return [];
    });
    events.push(...(await Promise.all(together)).flat());
  }
  return events;
}

/** Fields that all events of a task share, and lists that are about other tasks too. */
const LEFT_OUT: readonly string[] = ["v", "execution", "phase", "visit", "handler", "tasks", "count", "n"];

/** The part of an event that concerns one task; nothing if it does not name the task. */
function ofTask(event: ReturnType<typeof publicEvent>, task: number): TaskEvent[] {
  const { seq, at, kind } = event;
  const rows = event["tasks"] as readonly { readonly n: number }[] | undefined;
  const row = rows?.find(({ n }) => n === task) ?? null;
  if (rows !== undefined && row === null) return [];
  const fields = Object.entries({ ...event, ...row }).filter(([name]) => !LEFT_OUT.includes(name));
  return [{ ...Object.fromEntries(fields), seq, at, kind }];
}
