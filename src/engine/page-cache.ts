/**
 * Task pages in memory, up to a number of characters. A full cache refuses new pages rather than dropping old ones:
 * tasks are given out oldest first, so the oldest pages are the ones about to be needed.
 */
export interface Page {
  readonly from: number;
  readonly tasks: readonly string[];
  readonly keys: readonly string[] | null;
}

export class PageCache {
  readonly #pages = new Map<string, Page>();
  readonly #charsMax: number;
  #chars = 0;

  constructor(charsMax: number) {
    this.#charsMax = charsMax;
  }

  get(execution: string, seq: number): Page | undefined {
    return this.#pages.get(key(execution, seq));
  }

  /** Keeps a page if there is room; `force` keeps it in any case (it was just read because it is needed). */
  put(execution: string, seq: number, page: Page, force = false): void {
    const size = pageChars(page);
    if (this.#pages.has(key(execution, seq)) || (!force && this.#chars + size > this.#charsMax)) return;
    this.#pages.set(key(execution, seq), page);
    this.#chars += size;
  }

  drop(execution: string, seq: number): void {
    const page = this.#pages.get(key(execution, seq));
    if (page === undefined) return;
    this.#pages.delete(key(execution, seq));
    this.#chars -= pageChars(page);
  }
}

function key(execution: string, seq: number): string {
  return `${execution}/${seq}`;
}

function pageChars(page: Page): number {
  let chars = 64;
  for (const text of page.tasks) chars += text.length + 16;
  return chars;
}
