/**
 * Since when which definition of a workflow is the newest: noted whenever that changes, by whoever stores definitions
 * here. Documents named by workflow and time, so that a list needs no index of its own.
 */
import { isSubmissionName } from "../../commands/submission-definition.ts";
import type { Clock } from "../../std/clock.ts";
import { fields, isNumber, isText, jsonForm, listDocuments } from "../../store/document-form.ts";
import type { Store } from "../../store/store.ts";

/** A definition that was the newest from a time on. */
export interface Version {
  readonly hash: string;
  /** Null: it was there before this was noted. */
  readonly at: number | null;
}

export interface VersionPage {
  readonly data: readonly Version[];
  readonly next: string | null;
}

const KIND = "workflow-version";
/** The form of the log's documents. */
export const VERSION_FORM = jsonForm<{ readonly hash: string; readonly at: number }>(
  KIND,
  fields({ hash: isText, at: isNumber }),
);
const TIME_DIGITS = 15;

/** Has every change of a newest definition noted. */
export function noteVersions(store: Store, clock: Clock): void {
  const put = store.putDefinition.bind(store);
  store.putDefinition = async (name, hash, body) => {
    // What is named by its own content has no other versions worth telling of.
    if (isSubmissionName(name)) return put(name, hash, body);
    const before = await store.getDefinition({ newestOf: name });
    await put(name, hash, body);
    if (before?.hash === hash) return;
    // Later than the one before, whatever the clock says, here or at another node: the list is in this order.
    const [last] = await listDocuments(store, VERSION_FORM, { ...rangeOf(name), descending: true, max: 1 });
    const at = Math.max(clock.now(), last === undefined || last.damage !== undefined ? 0 : last.value.at + 1);
    await store.putDocument(
      KIND,
      `${name} ${timeText(at)} ${hash.slice(0, 16)}`,
      JSON.stringify({ hash, at }),
    );
  };
}

/** Versions of a workflow, the newest first; null: there is no such workflow. */
export async function listVersions(
  store: Store,
  name: string,
  { cursor, max }: { readonly cursor: string | null; readonly max: number },
): Promise<VersionPage | null> {
  const newest = await store.getDefinition({ newestOf: name });
  if (newest === null) return null;
  const found = await listDocuments(store, VERSION_FORM, {
    ...rangeOf(name),
    ...(cursor === null ? {} : { before: `${name} ${cursor}` }),
    descending: true,
    max,
  });
  const data: Version[] = found.flatMap((one) => (one.damage === undefined ? [one.value] : []));
  if (cursor === null && data[0]?.hash !== newest.hash) data.unshift({ hash: newest.hash, at: null });
  const next = found.length === max ? (found.at(-1)?.id.slice(name.length + 1) ?? null) : null;
  return { data: data.slice(0, max), next };
}

/** The documents of a name: `!` is the first text behind all that begin with the name and a space. */
function rangeOf(name: string): { readonly after: string; readonly before: string } {
  return { after: `${name} `, before: `${name}!` };
}

function timeText(ms: number): string {
  return String(ms).padStart(TIME_DIGITS, "0");
}
