import type { Place } from "../../kernel/event.ts";

/** Handlers that are remembered; of more, the oldest are forgotten, and their waits are not measured. */
const HANDLERS_MAX = 2_000;
/** Pages of one handler that are remembered. */
const PAGES_MAX = 4_096;

interface Times {
  readonly from: number[];
  readonly at: number[];
}

/** When the pages of open handlers came: since when their tasks could have been given out. */
export class PageTimes {
  readonly #handlers = new Map<string, Times>();

  begin(execution: string, place: Place, at: number): void {
    this.#handlers.set(keyOf(execution, place), { from: [0], at: [at] });
    if (this.#handlers.size <= HANDLERS_MAX) return;
    const [oldest] = this.#handlers.keys();
    if (oldest !== undefined) this.#handlers.delete(oldest);
  }

  add(execution: string, page: Place & { readonly from: number }, at: number): void {
    const times = this.#handlers.get(keyOf(execution, page));
    if (times === undefined || times.from.length >= PAGES_MAX) return;
    if (page.from === 0) times.at[0] = at;
    else {
      times.from.push(page.from);
      times.at.push(at);
    }
  }

  end(execution: string, place: Place): void {
    this.#handlers.delete(keyOf(execution, place));
  }

  /** When a task came; null: not known. */
  find(execution: string, place: Place, task: number): number | null {
    const times = this.#handlers.get(keyOf(execution, place));
    if (times === undefined) return null;
    const i = times.from.findLastIndex((from) => from <= task);
    return times.at[i] ?? null;
  }
}

function keyOf(execution: string, { phase, visit, handler }: Place): string {
  return `${execution} ${phase}.${visit}.${handler}`;
}
