/**
 * Handles the lease table of an owner that ends gracefully while attempts run at workers of other processes. The table is stored, and
 * the next owner begins with it: those attempts go on, and all other tasks can be leased at once.
 */
import { DamagedData } from "../../kernel/journal/damage.ts";
import type { ReportPlace } from "../../protocol/work.ts";
import { flag, KEPT, listOf, number, object, string } from "../../std/decode.ts";
import { jsonForm, parseDocument } from "../../store/document-form.ts";
import type { Ownership, Store } from "../../store/store.ts";
import type { Slot } from "../cache/slot.ts";
import { receiptDueAt } from "../dispatch/command-work.ts";
import type { HandlerQueue } from "../dispatch/handler-queue.ts";
import type { Declared } from "../limits/limits.ts";
import type { HandedQuotas, StoredQuotas } from "../limits/quota-server.ts";
import { readQuotas } from "../limits/stored-quotas.ts";
import type { NodeState } from "../node-state.ts";
import type { Tenure } from "../partitions/tenures.ts";
import { addLease, ENUMERATION, type Lease } from "./lease.ts";

/** A lease in the form in which it is handed over. */
export interface HandedLease
  extends ReportPlace,
    Pick<Lease, "task" | "attempt" | "claim" | "worker" | "position" | "lastLine" | "permits"> {
  readonly isStarted: boolean;
  readonly grantedSeq?: number;
  readonly queued?: true;
  readonly sentAt?: number;
}

export interface LeaseTable {
  /** The epoch of the owner that wrote the lease table. The table is valid for the next owner only. */
  readonly epoch: number;
  readonly leases: readonly HandedLease[];
  /**
   * The limits whose quota server was in the partition; undefined if there are none. An earlier version wrote null if some quotas
   * were unknown.
   */
  readonly home?: HandedQuotas | null;
  /** The declarations of the limits under which the leases count, if other nodes use these limits too. */
  readonly declared?: Readonly<Record<string, Declared>>;
}

/** The leases and quotas that former owners handed over. */
export interface Handover {
  readonly leases: readonly HandedLease[];
  /** The quotas of the limits in these partitions. Null means that nodes must declare their quotas again. */
  readonly quotas: ReadonlyMap<number, HandedQuotas | null>;
  readonly declared: Readonly<Record<string, Declared>>;
  /** Partitions with damaged lease tables. Which attempts are open in these partitions is unknown. */
  readonly doubtful?: readonly number[];
  /** Handler and project limits as the last owners stored them, by partition. */
  readonly stored?: ReadonlyMap<number, StoredQuotas>;
}

const KIND = "leases";
const storedLease = object(
  {
    execution: string,
    task: number,
    attempt: number,
    worker: string,
    permits: listOf(string),
    isStarted: flag,
  },
  KEPT,
);
const FORM = jsonForm<LeaseTable>(KIND, object({ epoch: number, leases: listOf(storedLease) }, KEPT));

/** Returns the lease tables of all partitions; null if a worker in this process holds an open lease. */
export function leaseTables(node: NodeState): ReadonlyMap<number, LeaseTable> | null {
  const tables = new Map<number, LeaseTable>();
  for (const tenure of node.tenures.all()) {
    const table = leaseTable(node, tenure);
    if (table === null) return null;
    tables.set(tenure.partition, table);
  }
  return tables;
}

/**
 * Returns the open leases of a partition at remote workers; null if a worker in this process holds one, because that attempt ends
 * with the process.
 */
export function leaseTable(node: NodeState, tenure: Tenure): LeaseTable | null {
  const leases: HandedLease[] = [];
  for (const slot of tenure.slots.values()) {
    for (const queue of slot.allQueues) {
      const place = { ...queue.place, execution: slot.id, round: queue.round };
      for (const lease of queue.leases.values()) {
        if (lease.local) return null;
        // A held-back report will be repeated to the next owner, so its lease stays open until then.
        if (lease.reported && !node.isHeldBack(slot)) continue;
        const { task, attempt, claim, epoch, worker, position, lastLine, permits, grantedSeq } = lease;
        const isStarted = lease.startedAt > 0;
        leases.push({
          ...place,
          epoch,
          task,
          attempt,
          claim,
          worker,
          position,
          lastLine,
          permits,
          isStarted,
          ...(Number.isFinite(grantedSeq) ? { grantedSeq } : {}),
          ...(lease.queued ? { queued: true as const } : {}),
          ...(lease.sentAt > 0 ? { sentAt: lease.sentAt } : {}),
        });
      }
    }
  }
  // Adds leases that the last owner handed over, of executions that have not been loaded since.
  for (const [execution, handed] of node.handedOver)
    if (node.tenures.of(execution) === tenure) leases.push(...handed);
  const { epoch } = tenure;
  const home = tenure.quotas.toHandover(node.now);
  const isEmpty = Object.keys(home).length === 1 && home.limits.length === 0;
  return { epoch, leases, ...(isEmpty ? {} : { home }), ...declaredOf(node, leases) };
}

/** Returns the declarations of the limits under which these leases count. */
function declaredOf({ limits }: NodeState, leases: readonly HandedLease[]): Pick<LeaseTable, "declared"> {
  if (limits.shares === null) return {};
  const declared: Record<string, Declared> = {};
  for (const { permits } of leases) {
    for (const name of permits) {
      const limit = limits.shares.declared(name);
      if (limit === undefined) continue;
      const { max, declaredAt, silenceMs } = limit;
      declared[name] = { max, declaredAt, silenceMs };
    }
  }
  return { declared };
}

/**
 * Stores the lease table by compare-and-set, so that a stalled owner never overwrites the table of a later owner. Returns false if it
 * was not stored; then the next owner does not know which attempts are open.
 */
export async function storeLeases(
  store: Pick<Store, "getDocument" | "putDocument" | "swapDocument">,
  partition: number,
  table: LeaseTable | null,
): Promise<boolean> {
  if (table === null) return false;
  if (table.leases.length === 0 && table.home === undefined) return true;
  const id = String(partition);
  const was = await readTable(store, partition);
  // A damaged lease table is deleted. Until then, it is unknown which attempts are open.
  if (was === "damaged") await store.putDocument(KIND, id, null);
  if (was === "damaged" || (was !== null && was.table.epoch > table.epoch)) return false;
  return store.swapDocument(KIND, id, { was: was?.body ?? null, body: JSON.stringify(table) });
}

/**
 * Stores the lease tables of all partitions. Returns false if a worker in this process holds an open lease, because that lease ends
 * with the process.
 */
export async function storeAllLeases(
  store: Store,
  tables: ReadonlyMap<number, LeaseTable> | null,
): Promise<boolean> {
  if (tables === null) return false;
  let isStored = true;
  for (const [partition, table] of tables)
    isStored = (await storeLeases(store, partition, table)) && isStored;
  return isStored;
}

/** Reads the tables that the last owners of these partitions handed over, if they ended cleanly. */
export async function readLeases(store: Store, owned: readonly Ownership[]): Promise<Handover> {
  const clean = owned.filter(({ epoch, uncleanEpoch }) => epoch > 1 && uncleanEpoch !== epoch - 1);
  const doubtful: number[] = [];
  const tables = await Promise.all(
    clean.map(async (own) => {
      const read = await readTable(store, own.partition);
      if (read === "damaged") doubtful.push(own.partition);
      const table = read === "damaged" ? null : tableFor(own, read?.body ?? null);
      return table === null ? [] : [{ own, table }];
    }),
  );
  const unclean = owned.filter(({ epoch, uncleanEpoch }) => epoch > 1 && uncleanEpoch === epoch - 1);
  return { ...handoverOf(tables.flat()), doubtful, stored: await readQuotas(store, unclean) };
}

/** Returns the ownerships, with partitions whose lease tables are damaged marked as ended uncleanly. */
export function inDoubt(owned: readonly Ownership[], { doubtful = [] }: Handover): readonly Ownership[] {
  return owned.map((own) =>
    doubtful.includes(own.partition) ? { ...own, uncleanEpoch: own.epoch - 1 } : own,
  );
}

/** Reads the stored table of a partition; null if there is none. */
async function readTable(
  store: Pick<Store, "getDocument">,
  partition: number,
): Promise<{ readonly body: string; readonly table: LeaseTable } | "damaged" | null> {
  try {
    const body = await store.getDocument(KIND, String(partition));
    return body === null ? null : { body, table: parseDocument(FORM, String(partition), body) };
  } catch (thrown) {
    if (thrown instanceof DamagedData) return "damaged";
    throw thrown;
  }
}

/** Combines the stored lease tables of partitions into one handover for their new owner. */
export function handoverOf(
  tables: readonly { readonly own: Ownership; readonly table: LeaseTable }[],
): Handover {
  return {
    leases: tables.flatMap(({ table }) => table.leases),
    quotas: new Map(
      tables.flatMap(({ own, table }) =>
        table.home === undefined ? [] : [[own.partition, table.home] as const],
      ),
    ),
    declared: Object.assign({}, ...tables.map(({ table }) => table.declared ?? {})),
  };
}

/** Returns the stored lease table if the previous owner wrote it; otherwise null. */
export function tableFor({ partition, epoch }: Ownership, body: string | null): LeaseTable | null {
  const table = body === null ? null : parseDocument(FORM, String(partition), body);
  return table?.epoch === epoch - 1 ? table : null;
}

/**
 * Keeps leases that a former owner handed over. Limits count them at once, and each becomes a lease in memory when its execution is
 * loaded.
 */
export function noteHandedOver(
  node: NodeState,
  leases: readonly HandedLease[],
  declared: Handover["declared"] = {},
): void {
  for (const [name, limit] of Object.entries(declared))
    if (node.limits.shares?.declared(name) === undefined) node.limits.declareKey(name, limit);
  for (const lease of leases) {
    const others = node.handedOver.get(lease.execution);
    if (others === undefined) node.handedOver.set(lease.execution, [lease]);
    else others.push(lease);
    for (const permit of lease.permits) node.limits.acquire(permit);
  }
}

/** Restores the handed-over leases of an execution that was loaded. */
export function restoreHandedOver(node: NodeState, slot: Slot): void {
  const leases = node.handedOver.get(slot.id);
  if (leases === undefined) return;
  node.handedOver.delete(slot.id);
  for (const handed of leases) {
    const queue = slot.handlerQueue(handed);
    if (queue !== undefined && isOpen(queue, handed)) restoreLease(node, slot, queue, handed);
    else for (const permit of handed.permits) node.limits.release(permit);
  }
}

/** Whether the task still waits for this attempt. */
function isOpen(queue: HandlerQueue, { task, attempt, round }: HandedLease): boolean {
  const { tasks, sealed, enumeration } = queue.state;
  if (queue.visit.round !== round || queue.leases.has(task)) return false;
  if (task === ENUMERATION) return !sealed && attempt === enumeration.ended + 1;
  return !tasks.settled.has(task) && attempt === tasks.nextAttempt(task);
}

function restoreLease(node: NodeState, slot: Slot, queue: HandlerQueue, handed: HandedLease): void {
  const { openedAt } = slot.tenure;
  const { task, attempt, claim, epoch, worker, position, lastLine, permits, isStarted } = handed;
  const queued = handed.queued === true;
  // Earlier versions did not hand over the time at which a command was sent, so the opening of the partition is used.
  const sentAt = queued && queue.state.plan.command !== null ? (handed.sentAt ?? openedAt) : 0;
  const silenceMs = isStarted ? node.heartbeatMs(queue.state.plan) : node.settings.claimLeaseMs;
  const lease = addLease(queue, node.roster.workers.get(worker), {
    task,
    attempt,
    claim,
    epoch,
    ...(handed.grantedSeq === undefined ? {} : { grantedSeq: handed.grantedSeq }),
    worker,
    queued,
    startedAt: isStarted ? openedAt : 0,
    sentAt,
    // The lease lasts one silence from the opening of the partition, however late the execution is loaded.
    until: queued ? Number.POSITIVE_INFINITY : openedAt + silenceMs,
    dueAt:
      queued || isStarted
        ? receiptDueAt(node, queue, { task, from: sentAt > 0 ? sentAt : openedAt, queued })
        : Number.POSITIVE_INFINITY,
    recorded: task !== ENUMERATION && queue.state.tasks.startOf(task) !== undefined,
    position,
    lastLine,
    permits,
  });
  // Records the start from its own time, because the execution may be loaded long after its partition was taken.
  if (isStarted && !lease.recorded) node.starts.note(slot, lease.startedAt);
}
