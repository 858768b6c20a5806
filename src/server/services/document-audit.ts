/**
 * Audits documents of the store: finds damaged ones, says what each damage means, and repairs documents that can be derived
 * from other data.
 */
import { TOKEN_FORM } from "../../commands/bound-projects.ts";
import { TOPIC_FORM, type TopicRole, usesOf } from "../../commands/topic-registry.ts";
import { UNDELIVERED_FORM } from "../../engine/mailbox/undelivered.ts";
import { PLACE_FORM } from "../../engine/signal-place.ts";
import { parseStored } from "../../kernel/definition/parse-definition.ts";
import { compilePlan } from "../../kernel/definition/plan.ts";
import { formOfPart, partOf, SCHEDULE_KIND } from "../../schedule/stored-schedule.ts";
import { isRejection } from "../../std/rejection.ts";
import { allDocuments, type DocumentForm, describeDamaged } from "../../store/document-form.ts";
import { DOCUMENT_KINDS } from "../../store/document-kinds.ts";
import { REMOTE_FORM } from "../../store/remote-epoch.ts";
import type { DocumentStore } from "../../store/store.ts";
import { SESSION_FORM } from "../auth/ended-sessions.ts";
import { AUDIT_FORM } from "./audit-log.ts";
import { KEY_FORM } from "./idempotency-keys.ts";
import { VERSION_FORM } from "./version-log.ts";

export interface DocumentFinding {
  readonly table: "documents";
  readonly message: string;
  readonly isRepaired: boolean;
}

type AuditedStore = Pick<
  DocumentStore,
  "listDocuments" | "getDocument" | "putDocument" | "listDefinitions" | "getDefinition"
>;

const PAGE = 500;
const FORMS: readonly DocumentForm<unknown>[] = [
  TOKEN_FORM,
  TOPIC_FORM,
  REMOTE_FORM,
  SESSION_FORM,
  AUDIT_FORM,
  KEY_FORM,
  PLACE_FORM,
  VERSION_FORM,
  UNDELIVERED_FORM,
];

/** Kinds of documents that expire. `repair` deletes damaged ones, because their expiry is not known. */
const DELETED = [KEY_FORM.kind, PLACE_FORM.kind];

/**
 * Finds damaged documents. With `repair`, roles of topics are derived again, and damaged idempotency keys and places of signals are
 * deleted.
 */
export async function auditDocuments(
  store: AuditedStore,
  { repair }: { readonly repair: boolean },
): Promise<readonly DocumentFinding[]> {
  const found = new Map<string, { readonly id: string; readonly message: string }[]>();
  for (const kind of DOCUMENT_KINDS) {
    const damaged = [];
    for await (const document of allDocuments(store, { kind, parse: (body) => body })) {
      const damage = document.damage ?? damageIn(kind, document.id, document.value);
      if (damage === null) continue;
      const message = `${describeDamaged(kind, { id: document.id, damage })}; ${remedyOf(kind, document.id)}`;
      damaged.push({ id: document.id, message });
    }
    found.set(kind, damaged);
  }
  const ids = (kind: string): string[] => (found.get(kind) ?? []).map(({ id }) => id);
  if (repair) {
    await decideRoles(store, ids(TOPIC_FORM.kind));
    for (const kind of DELETED) for (const id of ids(kind)) await store.putDocument(kind, id, null);
  }
  return [...found].flatMap(([kind, damaged]) =>
    damaged.map(({ message }): DocumentFinding => {
      const isRepaired = repair && (kind === TOPIC_FORM.kind || DELETED.includes(kind));
      return { table: "documents", message, isRepaired };
    }),
  );
}

/** Returns why a readable body is not a valid document of its kind; null if it is valid, or if its kind is not checked here. */
function damageIn(kind: string, id: string, body: string): string | null {
  const form = kind === SCHEDULE_KIND ? formOfPart(id) : FORMS.find((one) => one.kind === kind);
  try {
    form?.parse(body);
    return null;
  } catch (thrown) {
    return thrown instanceof SyntaxError ? "the document is not JSON" : (thrown as Error).message;
  }
}

function remedyOf(kind: string, id: string): string {
  switch (kind) {
    case SCHEDULE_KIND:
      return `put schedule ${partOf(id).id} again, or delete it: rondo schedules rm ${partOf(id).id}`;
    case TOKEN_FORM.kind:
      return `the token is not accepted, and its project still counts as bound to a token; revoke it: rondo token revoke ${id}`;
    case TOPIC_FORM.kind:
      return "rondo audit --repair decides the role of the topic again, by the definitions that use it";
    case KEY_FORM.kind:
      return "requests with this idempotency key are refused; rondo audit --repair deletes the damaged key";
    case PLACE_FORM.kind:
      return "repeats of this signal with a start are refused; rondo audit --repair deletes the damaged document";
    case SESSION_FORM.kind:
      return "the session stays ended";
    default:
      return "the document is ignored; restore it from a backup if you need it";
  }
}

/** Stores for each topic whether definitions use it for commands or for receipts, unless they use it for both. */
async function decideRoles(store: AuditedStore, names: readonly string[]): Promise<void> {
  if (names.length === 0) return;
  const roles = new Map<string, Set<TopicRole>>(names.map((name) => [name, new Set()]));
  for (let after = ""; ; ) {
    const page = await store.listDefinitions({ after, max: PAGE });
    for (const { hash } of page) {
      const stored = await store.getDefinition({ hash });
      for (const { name, role } of stored === null ? [] : usesIn(stored.body)) roles.get(name)?.add(role);
    }
    if (page.length < PAGE) break;
    after = page.at(-1)?.name ?? "";
  }
  for (const [name, [role, other]] of roles)
    await store.putDocument(
      TOPIC_FORM.kind,
      name,
      role === undefined || other !== undefined ? null : JSON.stringify({ role, project: "" }),
    );
}

function usesIn(body: string): ReturnType<typeof usesOf> {
  if (!body.includes('"command"')) return [];
  let definition: ReturnType<typeof parseStored>;
  try {
    definition = parseStored(JSON.parse(body));
  } catch (thrown) {
    // The audit of executions reports damaged definitions, so this one is ignored here.
    if (thrown instanceof SyntaxError) return [];
    throw thrown;
  }
  return isRejection(definition)
    ? []
    : compilePlan(definition).commands.flatMap(({ command }) => usesOf(command));
}
