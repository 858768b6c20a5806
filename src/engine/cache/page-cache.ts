/** A cache of task pages. A full cache refuses pages that are not needed now, because the oldest pages in it are needed next. */

import { TransientMap } from "../../std/transient-map.ts";

/** The number of pages that are kept regardless of their size, since tasks that wait for a permit still need their pages. */
const PAGES_MIN = 64;

export interface Page {
  readonly from: number;
  readonly tasks: readonly string[];
  readonly keys: readonly string[] | null;
}

/** A page of results. The numbers of its tasks need not be consecutive. */
export interface ResultPage {
  readonly numbers: readonly number[];
  readonly tasks: readonly string[];
}

export class PageCache {
  readonly #pages = new TransientMap<string, Page | ResultPage>();
  readonly #charsMax: number;
  #chars = 0;

  constructor(charsMax: number) {
    this.#charsMax = charsMax;
  }

  get(execution: string, seq: number): Page | undefined {
    const page = this.#pages.get(key(execution, seq));
    return page !== undefined && "from" in page ? page : undefined;
  }

  /** Returns the results in the journal event with this sequence number. */
  results(execution: string, seq: number): ResultPage | undefined {
    const page = this.#pages.get(key(execution, seq));
    return page !== undefined && "numbers" in page ? page : undefined;
  }

  /**
   * Keeps a page if there is room. If the cache is full, a page with `isNeeded` replaces the oldest pages; any other page is not
   * kept.
   */
  put(execution: string, seq: number, page: Page | ResultPage, isNeeded = false): void {
    const size = pageChars(page);
    const at = key(execution, seq);
    if (this.#pages.has(at) || (!isNeeded && this.#chars + size > this.#charsMax)) return;
    for (const oldest of this.#pages.keys()) {
      if (this.#chars + size <= this.#charsMax || this.#pages.size < PAGES_MIN) break;
      this.#drop(oldest);
    }
    this.#pages.set(at, page);
    this.#chars += size;
  }

  drop(execution: string, seq: number): void {
    this.#drop(key(execution, seq));
  }

  #drop(at: string): void {
    const page = this.#pages.get(at);
    if (page === undefined) return;
    this.#pages.delete(at);
    this.#chars -= pageChars(page);
  }
}

function key(execution: string, seq: number): string {
  return `${execution}/${seq}`;
}

function pageChars(page: Pick<Page, "tasks">): number {
  let chars = 64;
  for (const text of page.tasks) chars += text.length + 16;
  return chars;
}
