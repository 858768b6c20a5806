/** Reads the checkpoints of earlier attempts at a task from the journal, for the worker that continues the task. */
import type { Recorded } from "../../kernel/event.ts";
import { decodeEntry } from "../../kernel/journal/journal-entry.ts";
import type { Checkpoint } from "../../protocol/work.ts";
import { assert } from "../../std/assert.ts";
import type { ExecutionStore } from "../../store/store.ts";

export interface ItemHistory {
  /** Steps, answered waits and sleeps of earlier attempts, as a JSON list. */
  readonly steps: string;
  /** Failed tries of steps that are tried again, as a JSON list. */
  readonly tries: string;
  /** The names of children that have not ended, as a JSON list. */
  readonly children: string;
  /** Times that code has read, by name, as a JSON object. */
  readonly times: string;
  /** The number of finished runs of a script, and the state after the last finished run, as JSON. */
  readonly finished: number;
  readonly state: string | null;
}

/** Reads the history that the checkpoints of a task point to. */
export async function readHistory(
  store: ExecutionStore,
  execution: string,
  checkpoints: readonly Checkpoint[],
  now: number,
): Promise<ItemHistory> {
  const journal = new JournalAt(store, execution);
  const steps: string[] = [];
  const tries: string[] = [];
  const runs = checkpoints.filter((checkpoint) => checkpoint.kind === "run");
  for (const checkpoint of checkpoints) {
    const name = `"name":${JSON.stringify(checkpoint.name)}`;
    if (checkpoint.kind === "sleep")
      steps.push(checkpoint.due > now ? `{${name},"until":${checkpoint.due}}` : `{${name}}`);
    else if (checkpoint.kind === "tries")
      tries.push(
        `{${name},"tries":${checkpoint.tries},"until":${checkpoint.due > now ? checkpoint.due : 0}}`,
      );
    else if (checkpoint.kind === "step" && checkpoint.map !== undefined)
      steps.push(`{${name},"map":${JSON.stringify(checkpoint.map)}}`);
    else if (checkpoint.kind === "step") {
      const { event } = await journal.read(checkpoint.seq);
      assert(
        event.kind === "task.step" || event.kind === "task.step.failed",
        "a step's checkpoint points to its event",
      );
      if (event.kind === "task.step.failed") steps.push(`{${name},"error":${event.error}}`);
      else
        steps.push(
          event.error === null
            ? `{${name},"result":${event.result ?? "null"}}`
            : `{${name},"error":${event.error}}`,
        );
    }
  }
  const last = runs.at(-1);
  let state: string | null = null;
  if (last !== undefined) {
    const { event } = await journal.read(last.seq);
    assert(event.kind === "task.run", "a run's checkpoint points to its event");
    state = event.state;
  }
  const children = checkpoints.flatMap(({ kind, name }) => (kind === "child" ? [name] : []));
  const times = checkpoints.flatMap((one) => (one.kind === "time" ? [[one.name, one.at] as const] : []));
  return {
    steps: `[${steps.join(",")}]`,
    tries: `[${tries.join(",")}]`,
    children: JSON.stringify(children),
    times: JSON.stringify(Object.fromEntries(times)),
    finished: runs.length,
    state,
  };
}

/**
 * Reads the state of a script from an event: from a finished run, or from a page of tasks, where the task is the first state.
 */
export async function readState(
  store: ExecutionStore,
  execution: string,
  { seq, task }: { readonly seq: number; readonly task: number },
): Promise<string> {
  const { event } = await new JournalAt(store, execution).read(seq);
  if (event.kind === "task.run") return event.state;
  assert(event.kind === "tasks.enumerated", "a state is journaled with a run, or as a task");
  return event.tasks[task - event.from] ?? "null";
}

/** Reads single events of a journal. The last row is cached, because neighbouring events are often in the same row. */
class JournalAt {
  readonly #store: ExecutionStore;
  readonly #execution: string;
  #row: readonly Recorded[] = [];

  constructor(store: ExecutionStore, execution: string) {
    this.#store = store;
    this.#execution = execution;
  }

  async read(seq: number): Promise<Recorded> {
    const known = this.#row.find((recorded) => recorded.seq === seq);
    if (known !== undefined) return known;
    const [entry] = await this.#store.readJournal({
      execution: this.#execution,
      from: seq,
      to: seq,
      rowsMax: 1,
    });
    this.#row = entry === undefined ? [] : decodeEntry(entry);
    const found = this.#row.find((recorded) => recorded.seq === seq);
    assert(found !== undefined, "an event that a checkpoint points to is in the store");
    return found;
  }
}
