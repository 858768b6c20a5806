/** Finds submitted command workflows by the hashes of their commands. Workflows with the same commands have the same hash. */
import { COMMANDS_TAG, submissionName } from "../../commands/submission-definition.ts";
import { isRejection, type Rejection, reject } from "../../std/rejection.ts";
import { OPEN_STATUSES, type Store, type StoredHead } from "../../store/store.ts";
import type { Definitions } from "./definitions.ts";

export interface Hashes {
  readonly workflowHash?: string | undefined;
  readonly cmdHash?: string | undefined;
}

interface FindParts {
  readonly store: Pick<Store, "listHeads">;
  readonly definitions: Pick<Definitions, "byHash">;
}

/** The most executions with one hash that are read. */
const HEADS_MAX = 1_000;
const OPEN: readonly string[] = OPEN_STATUSES;

/** The list filter for executions of the submitted workflow with this hash; without a hash, it matches all workflows. */
export function filterOf({ workflowHash }: Hashes): { readonly workflow?: string } {
  return workflowHash === undefined ? {} : { workflow: submissionName(workflowHash) };
}

/** Whether a submitted workflow has these hashes. */
export async function hasHashes(
  { definitions }: Pick<FindParts, "definitions">,
  head: StoredHead,
  { workflowHash, cmdHash }: Hashes,
): Promise<boolean> {
  const own = head.tags[COMMANDS_TAG];
  if (own === undefined || (workflowHash !== undefined && own !== workflowHash)) return false;
  if (cmdHash === undefined) return true;
  const known = await definitions.byHash(head.hash);
  return !isRejection(known) && known.plan.commands.some(({ command }) => command.hash === cmdHash);
}

/** The id of the only open workflow with a hash; if none is open, the id of the newest one. */
export async function findByHash(
  parts: FindParts,
  hashes: Hashes & { readonly workflowHash: string },
  project: string | undefined,
): Promise<string | Rejection> {
  const filter = { ...filterOf(hashes), ...(project === undefined ? {} : { project }) };
  const heads = await parts.store.listHeads(filter, { before: null, max: HEADS_MAX });
  const found: StoredHead[] = [];
  for (const head of heads) if (await hasHashes(parts, head, hashes)) found.push(head);
  const open = found.filter(({ status }) => OPEN.includes(status));
  if (open.length > 1)
    return reject("conflict", `${open.length} open workflows have this hash`, {
      path: "workflow_hash",
      hint: "name one workflow by its `workflow_id`",
    });
  const [one] = open.length === 1 ? open : found;
  return one?.id ?? reject("not_found", "there is no workflow with this hash", { path: "workflow_hash" });
}
