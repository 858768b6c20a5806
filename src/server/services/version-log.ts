/** The version log: when each definition of a workflow became the newest, as documents named by workflow and time. */
import { isSubmissionName } from "../../commands/submission-definition.ts";
import { isVersionedName } from "../../kernel/definition/version-name.ts";
import type { Clock } from "../../std/clock.ts";
import { KEPT, number, object, string } from "../../std/decode.ts";
import { decorate } from "../../std/decorate.ts";
import { jsonForm, listDocuments } from "../../store/document-form.ts";
import type { DocumentStore } from "../../store/store.ts";
import type { WorkflowVersion } from "../schemas/workflow.ts";

/** A definition, and since when it is the newest. */
type LoggedVersion = Pick<WorkflowVersion, "hash" | "at">;

export interface VersionPage {
  readonly data: readonly LoggedVersion[];
  readonly next: string | null;
}

const KIND = "workflow-version";
/** The form of the documents of the version log. */
export const VERSION_FORM = jsonForm<{ readonly hash: string; readonly at: number }>(
  KIND,
  object({ hash: string, at: number }, KEPT),
);
const TIME_DIGITS = 15;

/** Wraps a store so that every change of a workflow's newest definition is logged. */
export function withVersionLog<S extends DocumentStore>(store: S, clock: Pick<Clock, "now">): S {
  return decorate<DocumentStore>(store, {
    putDefinition: async (name, hash, body) => {
      // Such names always have the same definition, so nothing is logged: they are derived from the content, or name a version.
      if (isSubmissionName(name) || isVersionedName(name)) return store.putDefinition(name, hash, body);
      const before = await store.getDefinition({ newestOf: name });
      await store.putDefinition(name, hash, body);
      if (before?.hash === hash) return;
      // The time of an entry is always later than that of the last entry, even if the clocks of nodes differ, because the log
      // is sorted by time.
      const [last] = await listDocuments(store, VERSION_FORM, { ...rangeOf(name), descending: true, max: 1 });
      const isFirst = last === undefined || last.damage !== undefined;
      const at = Math.max(clock.now(), isFirst ? 0 : last.value.at + 1);
      const id = `${name} ${timeText(at)} ${hash.slice(0, 16)}`;
      await store.putDocument(KIND, id, JSON.stringify({ hash, at }));
    },
  }) as S;
}

/** Versions of a workflow, the newest first; null if there is no such workflow. */
export async function listVersions(
  store: DocumentStore,
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
  const data: LoggedVersion[] = found.flatMap((one) => (one.damage === undefined ? [one.value] : []));
  if (cursor === null && data[0]?.hash !== newest.hash) data.unshift({ hash: newest.hash, at: null });
  const next = found.length === max ? (found.at(-1)?.id.slice(name.length + 1) ?? null) : null;
  return { data: data.slice(0, max), next };
}

/** The range of the log's document ids for one workflow: `!` sorts directly after the space. */
function rangeOf(name: string): { readonly after: string; readonly before: string } {
  return { after: `${name} `, before: `${name}!` };
}

function timeText(ms: number): string {
  return String(ms).padStart(TIME_DIGITS, "0");
}
