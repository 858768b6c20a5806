/**
 * Finds submitted command workflows by the hashes of their commands. Workflows with the same commands have the same
 * hash. A tag of each has the hash of its commands, and the search index finds it by the tag.
 */
import { COMMANDS_TAG } from "../../commands/submission-definition.ts";
import { ownCommands } from "../../kernel/command/own-command.ts";
import { DamagedData } from "../../kernel/journal/damage.ts";
import type { Json } from "../../std/json.ts";
import { isRejection, type Rejection, reject } from "../../std/rejection.ts";
import { indexNewest, listOrSearch } from "../../store/search-heads.ts";
import {
  type ExecutionSearch,
  type HeadFilter,
  OPEN_STATUSES,
  type Store,
  type StoredHead,
} from "../../store/store.ts";
import { EventReader } from "../views/event-reader.ts";
import type { Definitions } from "./definitions.ts";

export interface Hashes {
  readonly workflowHash?: string | undefined;
  readonly cmdHash?: string | undefined;
}

export interface FindParts {
  readonly store: ExecutionSearch & Pick<Store, "readJournal">;
  readonly definitions: Pick<Definitions, "byHash">;
}

/** The most executions with one hash that are read, and the most of the newest executions. */
const HEADS_MAX = 1_000;
const OPEN: readonly string[] = OPEN_STATUSES;

/** Reads a page of executions that may be submitted workflows with these hashes, newest first. */
export async function listByHash(
  { store }: FindParts,
  { workflowHash }: Hashes,
  {
    filter,
    before,
    max,
  }: { readonly filter: HeadFilter; readonly before: number | null; readonly max: number },
): Promise<{ readonly heads: readonly StoredHead[]; readonly next: number | null }> {
  if (workflowHash !== undefined) {
    if (before === null) await indexNewest(store);
    return listOrSearch(store, { filter, tags: { [COMMANDS_TAG]: workflowHash }, before, max });
  }
  const heads = await store.listHeads(filter, { before, max });
  return { heads, next: heads.length < max ? null : (heads.at(-1)?.order ?? null) };
}

/** Whether a submitted workflow has these hashes. */
export async function hasHashes(
  { store, definitions }: FindParts,
  head: StoredHead,
  { workflowHash, cmdHash }: Hashes,
): Promise<boolean> {
  const own = head.tags[COMMANDS_TAG];
  if (own === undefined || (workflowHash !== undefined && own !== workflowHash)) return false;
  if (cmdHash === undefined) return true;
  const known = await definitions.byHash(head.hash);
  if (isRejection(known)) return false;
  const { plan } = known;
  const input = plan.definition.commands === undefined ? {} : await inputOf(store, head.id);
  return input !== null && ownCommands(plan, input).some(({ hash }) => hash === cmdHash);
}

/** The input of an execution; null if its journal is gone or damaged. */
async function inputOf(store: Pick<Store, "readJournal">, execution: string): Promise<Json> {
  const events = new EventReader(store, execution);
  try {
    const created = await events.at(1);
    return created?.kind === "created" ? events.value(created.input) : null;
  } catch (error) {
    if (error instanceof DamagedData) return null;
    throw error;
  }
}

/** The id of the only open workflow with a hash; if none is open, the id of the newest one. */
export async function findByHash(
  parts: FindParts,
  hashes: Hashes & { readonly workflowHash: string },
  project: string | undefined,
): Promise<string | Rejection> {
  const filter = project === undefined ? {} : { project };
  const listed = await listByHash(parts, hashes, { filter, before: null, max: HEADS_MAX });
  // Another node may not have indexed its newest executions yet.
  const newest = await parts.store.listHeads(filter, { before: null, max: HEADS_MAX });
  const heads = new Map([...newest, ...listed.heads].map((head) => [head.id, head]));
  const found: StoredHead[] = [];
  for (const head of heads.values()) if (await hasHashes(parts, head, hashes)) found.push(head);
  found.sort((one, other) => other.order - one.order);
  const open = found.filter(({ status }) => OPEN.includes(status));
  if (open.length > 1)
    return reject("conflict", `${open.length} open workflows have this hash`, {
      path: "workflow_hash",
      hint: "name one workflow by its `workflow_id`",
    });
  const [one] = open.length === 1 ? open : found;
  return one?.id ?? reject("not_found", "there is no workflow with this hash", { path: "workflow_hash" });
}
