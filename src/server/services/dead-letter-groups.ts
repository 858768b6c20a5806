/** Groups the newest dead letters by error, ignoring the numbers and names in error messages. Dead letters are cached. */
import { errorGroup } from "../../engine/views/error-groups.ts";
import { decodeReadable } from "../../kernel/journal/journal-entry.ts";
import type { Store, StoredDeadLetter } from "../../store/store.ts";
import type { DeadLetterGroup } from "../schemas/dead-letter.ts";

/** How many dead letters are grouped, read at the same time, and cached. */
const READ_MAX = 500;
const TOGETHER = 16;
const KEPT_MAX = 5_000;

/** Tasks of one dead letter that failed in the same way. */
interface Part {
  readonly fingerprint: string;
  readonly phase: string | null;
  readonly handler: string | null;
  readonly name: string;
  readonly message: string;
  readonly at: number | null;
  readonly tasks: readonly number[];
}

/** A group with its dead letters. */
export interface FoundGroup {
  readonly group: DeadLetterGroup;
  readonly letters: readonly {
    readonly order: number;
    readonly execution: string;
    readonly tasks: readonly number[];
  }[];
}

export class DeadLetterGroups {
  readonly #store: Store;
  readonly #kept = new Map<string, readonly Part[]>();

  constructor(store: Store) {
    this.#store = store;
  }

  /** Groups the newest dead letters, the largest group first; `isAll` is true if there are no older dead letters. */
  async list(filter: {
    readonly project?: string;
    readonly workflow?: string;
    readonly execution?: string;
  }): Promise<{ readonly groups: readonly FoundGroup[]; readonly isAll: boolean }> {
    const letters = await this.#store.listDeadLetters(filter, { before: null, max: READ_MAX });
    const groups = new Map<string, { parts: [StoredDeadLetter, Part][]; tasks: number }>();
    for (let from = 0; from < letters.length; from += TOGETHER) {
      const together = letters.slice(from, from + TOGETHER);
      const parts = await Promise.all(together.map((letter) => this.#partsOf(letter)));
      for (const [i, letter] of together.entries())
        for (const part of parts[i] ?? []) {
          const group = groups.get(part.fingerprint) ?? { parts: [], tasks: 0 };
          group.parts.push([letter, part]);
          group.tasks += part.tasks.length;
          groups.set(part.fingerprint, group);
        }
    }
    const found = [...groups].map(([id, { parts }]) => foundOf(id, parts));
    found.sort((a, b) => b.group.tasks - a.group.tasks);
    return { groups: found, isAll: letters.length < READ_MAX };
  }

  /** The tasks of a dead letter that belong to a group. */
  async tasksOf(letter: StoredDeadLetter, group: string): Promise<readonly number[]> {
    const parts = await this.#partsOf(letter);
    return parts.find(({ fingerprint }) => fingerprint === group)?.tasks ?? [];
  }

  async #partsOf(letter: StoredDeadLetter): Promise<readonly Part[]> {
    // If tasks of a dead letter are dropped, its cache key changes.
    const key = `${letter.execution} ${letter.seq} ${letter.order} ${letter.tasks.length}`;
    const kept = this.#kept.get(key);
    if (kept !== undefined) return kept;
    const parts = await this.#read(letter);
    this.#kept.set(key, parts);
    const [oldest] = this.#kept.keys();
    if (this.#kept.size > KEPT_MAX && oldest !== undefined) this.#kept.delete(oldest);
    return parts;
  }

  async #read({ execution, seq, workflow, project, tasks }: StoredDeadLetter): Promise<readonly Part[]> {
    const [entry] = await this.#store.readJournal({ execution, from: seq, to: seq, rowsMax: 1 });
    const recorded = entry === undefined ? undefined : decodeReadable(entry).find((one) => one.seq === seq);
    const event = recorded?.event;
    const at = recorded?.at ?? null;
    const place = event !== undefined && "handler" in event ? event : null;
    const phase = place?.phase ?? null;
    const handler = place?.handler ?? null;
    const wanted = new Set(tasks);
    const parts = new Map<string, { name: string; message: string; tasks: number[] }>();
    const note = (task: number, payload: string): void => {
      const { id: fingerprint, name, message } = errorGroup({ project, workflow, phase, handler }, payload);
      const part = parts.get(fingerprint);
      if (part === undefined) parts.set(fingerprint, { name, message, tasks: [task] });
      else part.tasks.push(task);
    };
    if (event?.kind === "tasks.settled")
      for (const [i, task] of event.tasks.entries()) {
        if (wanted.has(task)) note(task, event.payloads[i] ?? "null");
      }
    else for (const task of tasks) note(task, JSON.stringify(event ?? null));
    return [...parts].map(([fingerprint, part]) => ({ fingerprint, phase, handler, at, ...part }));
  }
}

function foundOf(id: string, parts: readonly (readonly [StoredDeadLetter, Part])[]): FoundGroup {
  const [letter, part] = parts[0] as readonly [StoredDeadLetter, Part];
  const times = parts.flatMap(([, { at }]) => at ?? []);
  return {
    group: {
      id,
      project: letter.project,
      workflow: letter.workflow,
      phase: part.phase,
      handler: part.handler,
      name: part.name,
      message: part.message,
      tasks: parts.reduce((sum, [, { tasks }]) => sum + tasks.length, 0),
      executions: new Set(parts.map(([{ execution }]) => execution)).size,
      firstAt: times.length === 0 ? null : Math.min(...times),
      lastAt: times.length === 0 ? null : Math.max(...times),
      sample: { execution: letter.execution, task: part.tasks[0] ?? 0 },
    },
    letters: parts.map(([{ order, execution }, { tasks }]) => ({ order, execution, tasks })),
  };
}
