/**
 * Steps executions that have messages and writes them in commits. The number of concurrent commits is bounded, and an execution is in
 * at most one.
 */

import { assert } from "../../std/assert.ts";
import { TransientMap } from "../../std/transient-map.ts";
import type { CommitVerdict } from "../../store/store.ts";
import type { Slot } from "../cache/slot.ts";
import type { Mailbox, ReceivedMessage } from "../mailbox/mailbox.ts";
import type { NodeState } from "../node-state.ts";
import type { TimerQueue } from "../timers/timer-queue.ts";
import type { AfterCommit } from "./after-commit.ts";
import { type Stepped, stepSlot } from "./stepping.ts";

/** A commit takes at least this many of the waiting executions, so that a few executions are not split over several commits. */
const SHARE_MIN = 16;
/**
 * After a commit of this many executions the turn ends, so that the store writes it while further executions are stepped. PostgreSQL
 * writes all commits of one turn in one call; then neither the database nor the engine would work while the other one does.
 */
const LARGE_WRITES = 32;

interface UnderWay {
  readonly stepped: readonly Stepped[];
  /** Mailbox messages that the commit deletes although the executions that received them write nothing. */
  readonly mailDone: readonly ReceivedMessage[];
}

export class Committer {
  readonly #node: NodeState;
  readonly #afterCommit: AfterCommit;
  readonly #mailbox: Mailbox;
  readonly #timers: TimerQueue;
  readonly #lose: (partitions: readonly number[]) => void;
  /** The commits that the store has not answered yet, by their numbers. */
  readonly #underWay = new TransientMap<number, UnderWay>();
  // @plant acknowledged before it is durable 3
  #commits = 0;
  /** Whether this turn has emitted a large commit, so that no further execution is stepped in it. */
  #isTurnOver = false;

  constructor(
    node: NodeState,
    parts: {
      afterCommit: AfterCommit;
      mailbox: Mailbox;
      timers: TimerQueue;
      lose: (partitions: readonly number[]) => void;
    },
  ) {
    this.#node = node;
    this.#afterCommit = parts.afterCommit;
    this.#mailbox = parts.mailbox;
    this.#timers = parts.timers;
    this.#lose = parts.lose;
  }

  get underWay(): number {
    return this.#underWay.size;
  }

  /** Whether executions wait for a further turn although another commit may be emitted. */
  get isWaiting(): boolean {
    return this.#isTurnOver && this.#node.runnable.length > 0 && this.#hasRoom;
  }

  get #hasRoom(): boolean {
    return this.#underWay.size < this.#node.settings.commitsMax;
  }

  beginTurn(): void {
    this.#isTurnOver = false;
  }

  /** Steps waiting executions and emits commits, up to the limit of concurrent commits or to a large commit. */
  flush(): void {
    while (this.#hasRoom && this.#node.runnable.length > 0 && !this.#isTurnOver) this.#flushOne();
    if (this.#mailbox.hasDone && this.#underWay.size === 0) this.#emit([]);
  }

  // @plant acknowledged before it is durable 2
  // @plant unknown outcome taken for success 2
  committed(commit: number, verdict: CommitVerdict): void {
    const underWay = this.#underWay.get(commit);
    if (underWay === undefined) return;
    this.#underWay.delete(commit);
    this.#unhold(underWay);
    // @plant fenced verdict ignored
    if (verdict.kind === "fenced" || verdict.fenced.length > 0) this.#fenced(underWay, verdict);
    // @plant fenced verdict ignored 2
    if (verdict.kind === "fenced") return;
    this.#mailbox.close(underWay.mailDone.map(({ id }) => id));
    const exists = new Set(verdict.exists);
    for (const stepped of underWay.stepped) {
      this.#mailbox.close(stepped.mail);
      const { tenure } = stepped.slot;
      if (tenure.isOver) this.#afterCommit.answer(stepped, !verdict.fenced.includes(tenure.partition));
      else if (exists.has(stepped.slot.id)) this.#afterCommit.retry(stepped);
      else {
        stepped.slot.status = "clean";
        this.#afterCommit.finish(stepped);
      }
    }
  }

  /** Called when the commit failed or its outcome is unknown: reloads the executions and steps the same messages again. */
  failed(commit: number): void {
    // @plant unknown outcome taken for success
    const underWay = this.#underWay.get(commit);
    if (underWay === undefined) return;
    this.#underWay.delete(commit);
    this.#unhold(underWay);
    for (const { id, to } of underWay.mailDone) this.#mailbox.applied(to, [id]);
    // @plant message lost with an unknown commit
    this.#mailbox.rescan();
    // The commit may have been written nevertheless, with timers that are not in memory yet.
    this.#timers.rescan();
    for (const stepped of underWay.stepped) {
      if (stepped.slot.tenure.isOver) this.#afterCommit.answer(stepped, false);
      else {
        this.#afterCommit.retry(stepped);
        // @plant end of a child counted twice 2
        this.#mailbox.readAgain(stepped.slot);
      }
    }
  }

  /** Ends the priority holds of the executions in the commit. */
  #unhold({ stepped }: UnderWay): void {
    const { holds } = this.#node.dispatcher;
    if (!holds.isEmpty) for (const { slot } of stepped) holds.remove(slot.id);
  }

  /**
   * Called when other nodes own partitions of the commit. The store has written nothing of these partitions, and this node gives them
   * up.
   */
  #fenced({ stepped }: UnderWay, verdict: CommitVerdict): void {
    const partitions = verdict.kind === "fenced" ? verdict.partitions : verdict.fenced;
    const why = verdict.kind === "fenced" ? verdict.why : "another node owns the partition";
    this.#node.emit({ kind: "fenced", why, partitions });
    this.#lose(partitions);
    if (verdict.kind === "fenced") for (const one of stepped) this.#afterCommit.answer(one, false);
  }

  /** Steps a share of the waiting executions for one commit. The others are stepped for the next commit while this commit is written. */
  #flushOne(): void {
    const node = this.#node;
    const { commitsMax, commitMessagesMax, commitCharsMax, turnMessages } = node.settings;
    const share = Math.ceil(node.runnable.length / (commitsMax - this.#underWay.size));
    const writesMax = Math.min(node.settings.commitWritesMax, Math.max(share, SHARE_MIN));
    const stepped: Stepped[] = [];
    const idle: Stepped[] = [];
    let messages = 0;
    let chars = 0;
    let taken = 0;
    for (; taken < node.runnable.length; taken++) {
      if (stepped.length >= writesMax || messages >= commitMessagesMax || chars >= commitCharsMax) break;
      const slot = node.runnable[taken] as Slot;
      slot.isRunnable = false;
      if (slot.status !== "clean" || slot.queue.length === 0 || node.isHeldBack(slot)) continue;
      const result = stepSlot(node, slot, Math.min(turnMessages, commitMessagesMax - messages));
      slot.needs = result.needs;
      // @plant newer events written beside older nodes
      if (node.isHeldBack(slot)) {
        this.#afterCommit.holdBack(result);
        continue;
      }
      messages += result.messages;
      chars += result.chars;
      if (result.write === null) {
        idle.push(result);
        this.#mailbox.applied(slot.id, result.mail);
      } else {
        // @plant effects before their commit
        slot.status = "dirty";
        // @plant priority ignores dirty executions
        node.holdLower(slot);
        stepped.push(result);
      }
    }
    node.runnable.splice(0, taken);
    // @plant acknowledged before it is durable
    if (stepped.length > 0) this.#emit(stepped);
    if (stepped.length >= LARGE_WRITES) this.#isTurnOver = true;
    for (const result of idle) this.#afterCommit.finish(result);
  }

  #emit(stepped: readonly Stepped[]): void {
    const node = this.#node;
    const mailDone = this.#mailbox.hasDone ? this.#mailbox.drainDone() : NO_MAIL;
    this.#underWay.set(++this.#commits, { stepped, mailDone });
    const writes = stepped.map(({ write }) => {
      assert(write !== null, "a stepped slot must have a write to commit");
      return write;
    });
    const taken = mailDone.map(({ id }) => id);
    for (const { mail } of stepped) if (mail.length > 0) taken.push(...mail);
    const content = { fence: node.tenures.fence, writes };
    node.emit({
      kind: "commit",
      commit: this.#commits,
      content: taken.length === 0 ? content : { ...content, mailTaken: taken },
    });
  }
}

const NO_MAIL: readonly ReceivedMessage[] = [];
