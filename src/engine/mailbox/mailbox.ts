/**
 * Delivers messages between executions. A message is in the store from the sender's commit until the receiver's commit. It is
 * delivered right after the sender's commit, or by a scan after a start or a commit of unknown outcome. It is applied once: after a
 * commit of unknown outcome, it is applied again only if a later scan still finds it in the store.
 */

import type { Plan } from "../../kernel/definition/plan.ts";
import { WRONG_CHECKSUM } from "../../kernel/journal/damage.ts";
import type { Sent, StartMessage } from "../../kernel/message.ts";
import { seal, unseal } from "../../std/seal.ts";
import { TransientMap } from "../../std/transient-map.ts";
import type { MailboxMessage, StoredMailboxMessage } from "../../store/store.ts";
import type { ExecutionCache } from "../cache/execution-cache.ts";
import type { Slot } from "../cache/slot.ts";
import type { NodeState } from "../node-state.ts";
import { StoreScan } from "../store-scan.ts";

const SCAN_MAX = 1_000;

/** The text that the checksum of a message covers besides its body (std/seal.ts). */
function mailKey({ id, to }: Pick<MailboxMessage, "id" | "to">): string {
  return `${id}\n${to}`;
}

export function toMailboxMessage({ id, to, message }: Sent): MailboxMessage {
  return { id, to, body: seal(JSON.stringify(message), mailKey({ id, to })) };
}

/** A message that a commit deletes although its receiver writes nothing. */
export type ReceivedMessage = Pick<MailboxMessage, "id" | "to">;

export class Mailbox {
  readonly #node: NodeState;
  readonly #cache: ExecutionCache;
  /** Messages in memory that no commit has deleted yet: the id of the receiving execution by the id of the message. */
  readonly #open = new Map<string, string>();
  /** Ids of applied messages that changed nothing. The commit in progress or the next one deletes them. */
  readonly #applied = new Set<string>();
  /** Ids of messages that were applied since the running scan was requested. The scan may find them again. */
  readonly #taken = new Set<string>();
  /** Messages that the next commit deletes: they were applied, or have no receiver. */
  #done: ReceivedMessage[] = [];
  /** Start messages that wait until their definition is read, by its hash, with later messages to the same executions. */
  readonly #waiting = new TransientMap<string, MailboxMessage[]>();
  /** Executions whose start message waits for a definition, with the hash of the definition. */
  readonly #waitingFor = new Map<string, string>();
  #after = 0;
  /** Whether the last scan stopped at its limit, so that the next scan continues after it. */
  #isCut = false;
  // @plant mailbox not scanned after a restart
  #wantsScan = true;
  readonly #scan = new StoreScan();
  /** Whether the result of the running scan is ignored, because it may contain messages that were applied since. */
  #isVoid = false;

  constructor(node: NodeState, cache: ExecutionCache) {
    this.#node = node;
    this.#cache = cache;
  }

  /** Requests a scan, if the store may have messages that are not in memory. */
  requestScan(): void {
    if (!this.#wantsScan || this.#scan.isRunning || this.#open.size >= SCAN_MAX || this.#node.closing) return;
    const { tenures } = this.#node;
    // Other nodes store messages too, so a new message may be before the cursor of the scan.
    if (!tenures.isWhole && !this.#isCut) this.#after = 0;
    if (this.#after === 0) this.#node.damagedMail.clear();
    this.#scan.start();
    this.#node.emit({ kind: "scan-mailbox", after: this.#after, max: SCAN_MAX, partitions: tenures.scope });
  }

  /** Whether this node knows every stored message to its executions. */
  get isScanned(): boolean {
    return !this.#wantsScan && !this.#scan.isRunning;
  }

  /** Scans all messages again, because a commit of unknown outcome may have stored some. */
  rescan(): void {
    this.#after = 0;
    this.#isCut = false;
    this.#wantsScan = true;
    this.#scan.invalidate();
  }

  scanned(messages: readonly StoredMailboxMessage[], max: number): void {
    const isStale = this.#scan.finish();
    if (this.#isVoid) {
      this.#isVoid = false;
      this.#taken.clear();
      return this.rescan();
    }
    this.#isCut = messages.length >= max;
    if (!this.#isCut) this.#wantsScan = false;
    for (const message of messages) {
      this.#after = message.order;
      if (!this.#taken.has(message.id)) this.deliver(message);
    }
    this.#taken.clear();
    if (isStale) this.rescan();
  }

  /**
   * Called when a message was stored. It is delivered now, unless older messages may be only in the store, or many are in memory;
   * then a scan delivers it.
   */
  sent(message: MailboxMessage): void {
    const { tenures } = this.#node;
    if (tenures.of(message.to) === undefined) {
      this.#node.emit({ kind: "mail-sent", partitions: [tenures.partitionOf(message.to)] });
      return;
    }
    if (!this.#wantsScan && !this.#scan.isRunning && this.#open.size < SCAN_MAX) return this.deliver(message);
    this.#wantsScan = true;
    this.#scan.invalidate();
  }

  /** Puts a committed message into its receiver's queue. */
  deliver(mail: MailboxMessage & Pick<StoredMailboxMessage, "damage">): void {
    if (this.#open.has(mail.id) || this.#node.tenures.of(mail.to) === undefined) return;
    const message = readMessage(mail);
    if (typeof message === "string") return this.#damaged(mail, message);
    const plan = message.kind === "start" ? this.#planOf(message) : undefined;
    // @plant message removed before it is applied
    this.#open.set(mail.id, mail.to);
    const before = this.#waitingFor.get(mail.to);
    // Messages after a waiting start stay behind it, so a cancel finds its execution.
    // @plant cancel overtakes a start
    if (before !== undefined) this.#waiting.get(before)?.push(mail);
    else if (message.kind === "start" && plan === undefined) this.#waitForPlan(message, mail);
    else this.#enqueue(mail, message, plan);
  }

  /** Called when a message is damaged: the message stays in the store, and the execution that should get it is checked for damage. */
  #damaged({ id, to }: MailboxMessage, why: string): void {
    this.#node.damagedMail.set(to, { table: "letters", execution: to, row: id, why });
    this.#cache.recheck(this.#cache.slot(to));
  }

  /** Drops a message from memory. It stays in the store, and the next scan finds it again. */
  putBack(id: string): void {
    this.#open.delete(id);
  }

  /** Delivers the start messages that waited for a definition. If the definition cannot be read, they stay in the store. */
  definition(hash: string, plan: Plan | null): void {
    for (const message of this.#takeWaiting(hash)) {
      if (plan === null) this.#open.delete(message.id);
      else this.#enqueue(message, readMessage(message) as Sent["message"], plan);
    }
  }

  /** Delivers the start messages that waited for the newest definition of a workflow. */
  workflowFound(workflow: string): void {
    for (const message of this.#takeWaiting(newestOf(workflow))) {
      this.#open.delete(message.id);
      this.deliver(message);
    }
  }

  #takeWaiting(wanted: string): readonly MailboxMessage[] {
    const waiting = this.#waiting.get(wanted) ?? [];
    this.#waiting.delete(wanted);
    for (const { to } of waiting) this.#waitingFor.delete(to);
    return waiting;
  }

  /**
   * Returns the plan of a start; undefined while it is being read. An execution that continues another one gets the newest definition
   * of its workflow. If that was deleted, it gets the definition of the other one.
   */
  #planOf({ workflow, hash, succession }: StartMessage): Plan | undefined {
    const { plans, newest } = this.#node;
    if (succession?.after === undefined) return plans.get(hash);
    const plan = newest.get(this.#node, workflow);
    if (plan === null || plan === undefined) return plan === null ? plans.get(hash) : undefined;
    plans.put(plan);
    return plan;
  }

  /** Notes that these messages changed nothing; the next commit deletes them. */
  // @plant message removed before it is applied 2
  applied(to: string, ids: readonly string[]): void {
    for (const id of ids) {
      // The message was dropped from memory after it was stepped, because another node owns its receiver now. That owner applies it.
      if (!this.#open.has(id)) continue;
      this.#done.push({ id, to });
      this.#applied.add(id);
    }
  }

  /** Drops messages from memory whose receivers belong to other nodes now. */
  forget(isOver: (execution: string) => boolean): void {
    for (const [id, to] of this.#open) if (isOver(to)) this.#applied.delete(id);
    this.#done = this.#done.filter(({ to }) => !isOver(to));
    this.#putBack(isOver);
  }

  /**
   * Called when a commit of this execution failed: its messages that are not applied leave memory and are scanned again, because the
   * commit may have been written and have deleted them.
   */
  readAgain(slot: Slot): void {
    slot.queue = slot.queue.filter((queued) => queued.kind !== "message" || queued.mail === undefined);
    this.#putBack((execution) => execution === slot.id);
  }

  #putBack(isReceiver: (execution: string) => boolean): void {
    for (const [id, to] of this.#open) if (isReceiver(to) && !this.#applied.has(id)) this.#open.delete(id);
    for (const to of [...this.#waitingFor.keys()]) if (isReceiver(to)) this.#waitingFor.delete(to);
    for (const [hash, messages] of this.#waiting)
      this.#waiting.set(
        hash,
        messages.filter(({ to }) => !isReceiver(to)),
      );
    this.#isVoid = this.#scan.isRunning;
  }

  /** Drops messages that a commit has deleted. */
  close(ids: readonly string[]): void {
    for (const id of ids) {
      this.#open.delete(id);
      this.#applied.delete(id);
      if (this.#scan.isRunning) this.#taken.add(id);
    }
  }

  /** Returns the messages that the next commit deletes. */
  drainDone(): ReceivedMessage[] {
    const done = this.#done;
    this.#done = [];
    return done;
  }

  get hasDone(): boolean {
    return this.#done.length > 0;
  }

  #enqueue(mail: MailboxMessage, message: Sent["message"], plan: Plan | undefined): void {
    if (plan !== undefined && message.kind === "start") this.#node.declareLimits(plan, message.project);
    const slot = this.#cache.slot(mail.to);
    const isOtherPlan = message.kind === "start" && plan !== undefined && plan.hash !== message.hash;
    this.#node.enqueue(slot, {
      kind: "message",
      message: isOtherPlan ? { ...message, hash: plan.hash } : message,
      request: null,
      mail: mail.id,
      ...(plan === undefined ? {} : { plan }),
    });
  }

  #waitForPlan({ hash, workflow, succession }: StartMessage, message: MailboxMessage): void {
    // Whether the start waits for the newest definition, which has been requested already. It does not if the workflow is known to
    // have no definition.
    const isNewest = succession?.after !== undefined && !this.#node.newest.isMissing(workflow);
    const wanted = isNewest ? newestOf(workflow) : hash;
    this.#waitingFor.set(message.to, wanted);
    const waiting = this.#waiting.get(wanted);
    if (waiting !== undefined) waiting.push(message);
    else {
      this.#waiting.set(wanted, [message]);
      if (!isNewest) this.#node.emit({ kind: "get-definition", hash });
    }
  }
}

/** Returns the key for starts that wait for the newest definition of a workflow. The key has a space, so it differs from every hash. */
function newestOf(workflow: string): string {
  return `newest ${workflow}`;
}

/** Parses a stored message. If it cannot be read, returns the reason as a text. */
function readMessage(mail: MailboxMessage & Pick<StoredMailboxMessage, "damage">): Sent["message"] | string {
  if (mail.damage !== undefined) return mail.damage;
  const { text, state } = unseal(mail.body, mailKey(mail));
  if (state === "broken") return WRONG_CHECKSUM;
  try {
    const message = JSON.parse(text) as Sent["message"] | null;
    return typeof message?.kind === "string" ? message : "the row does not contain a message";
  } catch (thrown) {
    return (thrown as Error).message;
  }
}
