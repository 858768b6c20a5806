/**
 * Which definitions of a workflow are still needed: how many open executions have each, and which workers serve its code. Only
 * the heads of open executions are read, page by page; in memory there is a count for each definition.
 */
import { satisfies } from "semver";
import { storedVersions } from "../../engine/store-definition.ts";
import type { Plan, Wanted } from "../../kernel/definition/plan.ts";
import { isRejection } from "../../std/rejection.ts";
import { currentHash, type HeadFilter, OPEN_STATUSES, type StoredHead } from "../../store/store.ts";
import { mergeOverviews } from "../other-nodes.ts";
import type { Services } from "../routes/services.ts";
import type { WorkflowVersion } from "../schemas/workflow.ts";

const PAGE = 1_000;
const WORKERS_SHOWN = 20;

type Parts = Pick<Services, "store" | "definitions" | "allNodes">;
type LoggedVersion = Pick<WorkflowVersion, "hash" | "at">;

interface Need {
  open: number;
  oldest: { readonly id: string; readonly createdAt: number };
}

interface Needs {
  readonly byHash: ReadonlyMap<string, Need>;
  /** Whether all open executions were counted. One that changes its status meanwhile may be missed. */
  readonly isComplete: boolean;
}

/**
 * Adds to each version of the log how far it is needed. With `isFirst`, versions and needed definitions that the log lacks are
 * added at the end.
 */
export async function withNeeds(
  parts: Parts,
  logged: readonly LoggedVersion[],
  of: { readonly workflow: string; readonly project?: string; readonly isFirst: boolean },
): Promise<readonly WorkflowVersion[]> {
  const { store, allNodes } = parts;
  const { isFirst, ...filter } = of;
  const [needs, newest, { nodes }] = await Promise.all([
    countNeeds(store, filter),
    store.getDefinition({ newestOf: of.workflow }),
    allNodes.ask({}),
  ]);
  const workers = mergeOverviews(nodes.map(({ overview }) => overview)).workers;
  const rows = [...logged];
  if (isFirst) {
    const stored = (await storedVersions(store, of.workflow)).map(({ hash }) => hash);
    const known = new Set(logged.map(({ hash }) => hash));
    for (const hash of new Set([...stored, ...needs.byHash.keys()]))
      if (!known.has(hash)) rows.push({ hash, at: null });
  }
  // If the caller sees only one project, it is unknown whether other projects need a version.
  const isWhole = needs.isComplete && of.project === undefined;
  return Promise.all(
    rows.map(async ({ hash, at }) => {
      const known = await parts.definitions.byHash(hash);
      const need = needs.byHash.get(hash);
      const isNewest = hash === newest?.hash;
      const served = isRejection(known) ? { workers: [], unserved: [] } : servedBy(known.plan, workers);
      return {
        hash,
        at,
        version: isRejection(known) ? null : (known.definition.version ?? null),
        open: need?.open ?? 0,
        oldest: need?.oldest ?? null,
        ...served,
        isNewest,
        canRetire: isWhole && need === undefined && !isNewest,
      };
    }),
  );
}

/** Counts the open executions of a workflow by their definition. */
async function countNeeds(store: Parts["store"], filter: HeadFilter): Promise<Needs> {
  const byHash = new Map<string, Need>();
  let counted = 0;
  for (const status of OPEN_STATUSES) {
    for (let before: number | null = null; ; ) {
      const heads: readonly StoredHead[] = await store.listHeads(
        { ...filter, status },
        { before, max: PAGE },
      );
      for (const head of heads) {
        const { id, createdAt } = head;
        const need = byHash.get(currentHash(head));
        if (need === undefined) byHash.set(currentHash(head), { open: 1, oldest: { id, createdAt } });
        else {
          need.open++;
          // Heads come newest first, so the last of several with equal times is the oldest.
          if (createdAt <= need.oldest.createdAt) need.oldest = { id, createdAt };
        }
      }
      counted += heads.length;
      before = heads.at(-1)?.order ?? null;
      if (heads.length < PAGE || before === null) break;
    }
  }
  const counts = await store.countHeads(filter);
  const open = OPEN_STATUSES.reduce((sum, status) => sum + (counts[status] ?? 0), 0);
  return { byHash, isComplete: counted >= open };
}

interface ServingWorker {
  readonly id: string;
  readonly serves: readonly { readonly use: string; readonly version?: string | undefined }[];
}

/** The workers that serve some code of a plan, and the code that no worker serves. */
function servedBy(plan: Plan, workers: readonly ServingWorker[]): { workers: string[]; unserved: string[] } {
  const wanted = new Map<string, Wanted>();
  for (const phase of [...plan.phases, ...plan.compensations])
    for (const handler of [...phase.handlers, ...(phase.decision === null ? [] : [phase.decision])]) {
      if (handler.mode === "use") wanted.set(handler.wanted.key, handler.wanted);
      if (handler.enumerateUse !== null) wanted.set(handler.enumerator.key, handler.enumerator);
    }
  const names = new Set<string>();
  const unserved = new Set<string>();
  for (const one of wanted.values()) {
    const serving = workers.filter(({ serves }) => serves.some((code) => fits(one, code)));
    if (serving.length === 0) unserved.add(one.range === null ? one.use : `${one.use} ${one.range}`);
    for (const { id } of serving) if (names.size < WORKERS_SHOWN) names.add(id);
  }
  return { workers: [...names].sort(), unserved: [...unserved].sort() };
}

function fits({ use, range }: Wanted, code: ServingWorker["serves"][number]): boolean {
  if (code.use !== use) return false;
  return range === null || (code.version !== undefined && satisfies(code.version, range));
}
