/**
 * Lists executions by what they say: every word of the search must stand in the id, the workflow, the project, the phase,
 * the error or a tag (`team=ops`). There is no index for that, so heads are looked at newest first, a bounded number for
 * one answer; the cursor goes on behind the last one that was looked at.
 */
import type { HeadFilter, Store, StoredHead } from "../../store/store.ts";

/** Heads looked at for one answer, and read at a time. */
const LOOKED_MAX = 20_000;
const READ = 1_000;

export interface FoundHeads {
  readonly heads: readonly StoredHead[];
  /** Where the next page begins; null: there is none. */
  readonly next: number | null;
}

/** A page of executions that fit the filter and the search. */
export async function findHeads(
  store: Store,
  filter: HeadFilter,
  options: { readonly q?: string | undefined; readonly before: number | null; readonly max: number },
): Promise<FoundHeads> {
  const words = (options.q ?? "").toLowerCase().split(/\s+/).filter(Boolean);
  const { max } = options;
  if (words.length === 0) {
    const heads = await store.listHeads(filter, { before: options.before, max });
    return { heads, next: heads.length === max ? (heads.at(-1)?.order ?? null) : null };
  }
  const found: StoredHead[] = [];
  let { before } = options;
  for (let looked = 0; looked < LOOKED_MAX; looked += READ) {
    const heads = await store.listHeads(filter, { before, max: READ });
    for (const head of heads) {
      before = head.order;
      if (fits(head, words)) found.push(head);
      if (found.length === max) return { heads: found, next: before };
    }
    if (heads.length < READ) return { heads: found, next: null };
  }
  return { heads: found, next: before };
}

function fits({ id, workflow, project, phase, error, tags }: StoredHead, words: readonly string[]): boolean {
  const tagged = Object.entries(tags).map(([name, value]) => `${name}=${value}`);
  const text = [id, workflow, project, phase ?? "", error ?? "", ...tagged].join("\n").toLowerCase();
  return words.every((word) => text.includes(word));
}
