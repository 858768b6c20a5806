/**
 * Handles inputs from workers: they join, claim work, report, send heartbeats, release claims, confirm sent commands and leave.
 */
import type { Beat } from "../../protocol/work.ts";
import type { ExecutionCache } from "../cache/execution-cache.ts";
import type { Queued, ReportAnswer, Slot } from "../cache/slot.ts";
import type { AfterCommit } from "../commit/after-commit.ts";
import type { Input, JoinOptions } from "../io.ts";
import { endHold } from "../leases/lease-granter.ts";
import { areHeld, beat, leasesOf, noteArrival } from "../leases/report-intake.ts";
import type { NodeState } from "../node-state.ts";
import { noteSent } from "./sent-commands.ts";
import { RosterEntry } from "./worker-roster.ts";

type QueuedReport = Extract<Queued, { readonly kind: "report" }>;

type WorkerInputKind = "joined" | "claims" | "reports" | "beats" | "releases" | "sent" | "left";

export class WorkerInputs {
  readonly #node: NodeState;
  readonly #parts: { readonly cache: ExecutionCache; readonly afterCommit: AfterCommit };
  /** Requests to start children that wait until the plan of the child's workflow is read, by workflow. */
  readonly #unplanned = new Map<string, QueuedReport[]>();

  constructor(node: NodeState, parts: { readonly cache: ExecutionCache; readonly afterCommit: AfterCommit }) {
    this.#node = node;
    this.#parts = parts;
  }

  handle(input: Extract<Input, { kind: `worker-${WorkerInputKind}` | "queues-paused" }>): void {
    const node = this.#node;
    switch (input.kind) {
      case "worker-joined": {
        const isFirst = input.queued === true && node.roster.queued === null;
        workerJoined(node, input);
        // A worker that joins is notified of takeovers that took place before it joined.
        if (isFirst) node.emit({ kind: "took-over", worker: input.worker });
        return this.#parts.cache.rescan();
      }
      case "worker-claims":
        if (workerClaims(node, input.worker, input)) this.#parts.cache.rescan();
        return;
      case "worker-reports":
        return this.#reports(input);
      case "worker-beats":
        return this.#beats(input);
      case "worker-releases":
        return this.#releases(input);
      case "worker-sent":
        for (const slot of noteSent(node, input.worker, input.beats))
          if (slot.status === "clean") this.#parts.afterCommit.becameClean(slot);
        return;
      case "queues-paused":
        node.roster.pause(input.paused);
        for (const slot of node.slots.values()) if (slot.status === "clean") node.offerAll(slot);
        return this.#parts.cache.rescan();
      case "worker-left":
        if (workerLeft(node, input.worker)) this.#parts.cache.rescan();
        return;
    }
  }

  #reports(input: Extract<Input, { kind: "worker-reports" }>): void {
    const answer: ReportAnswer = {
      worker: input.worker,
      report: input.report,
      verdicts: [],
      open: input.reports.length,
    };
    input.reports.forEach((report, index) =>
      this.#report({ kind: "report", report, worker: input.worker, answer, index }),
    );
  }

  #report(queued: QueuedReport): void {
    const node = this.#node;
    const { report } = queued;
    if (node.tenures.of(report.execution) === undefined)
      return this.#parts.afterCommit.turnAway(report.execution, queued);
    const slot = this.#parts.cache.slot(report.execution);
    noteArrival(node, slot, report);
    if (report.kind === "child") return this.#askForChild(slot, queued, report.workflow);
    const isStart = report.kind === "started" || report.kind === "accepted";
    if (isStart && areHeld(slot, report)) this.#parts.afterCommit.acknowledge(queued, report.attempts.length);
    else node.enqueue(slot, queued);
  }

  /**
   * Queues a request to start a child, together with the newest plan of the child's workflow. Until the plan is read, the request
   * waits in memory.
   */
  #askForChild(slot: Slot, queued: QueuedReport, workflow: string): void {
    const node = this.#node;
    const plan = node.newest.forChild(node, workflow);
    if (plan === undefined) {
      const waiting = this.#unplanned.get(workflow);
      if (waiting === undefined) this.#unplanned.set(workflow, [queued]);
      else waiting.push(queued);
      return;
    }
    if (plan !== null) node.plans.put(plan);
    node.enqueue(slot, { ...queued, plan });
  }

  /** Called when the newest plan of a workflow was read: queues the requests for children of this workflow. */
  workflowFound(workflow: string): void {
    const waiting = this.#unplanned.get(workflow);
    this.#unplanned.delete(workflow);
    for (const queued of waiting ?? []) this.#report(queued);
  }

  #beats(input: Extract<Input, { kind: "worker-beats" }>): void {
    for (const one of input.beats) {
      if (this.#node.tenures.of(one.execution) === undefined) continue;
      const slot = this.#parts.cache.slot(one.execution);
      if (slot.status === "loading") slot.beats.push({ beat: one, worker: input.worker });
      else beat(this.#node, slot, one, input.worker);
    }
  }

  /** Returns claims of a worker. Executions that are not in memory are loaded first, because their commands may be at a broker. */
  #releases({ worker, beats }: Extract<Input, { kind: "worker-releases" }>): void {
    const node = this.#node;
    for (const one of beats) {
      if (node.tenures.of(one.execution) === undefined) continue;
      const slot = this.#parts.cache.slot(one.execution);
      if (slot.status === "loading") slot.releases.push({ beat: one, worker });
      else
        for (const touched of workerReleases(node, worker, [one]))
          if (touched.status === "clean") this.#parts.afterCommit.becameClean(touched);
    }
  }
}

/** Adds a worker, or replaces the worker with the same id. The open leases of a replaced worker stay. */
export function workerJoined(node: NodeState, input: JoinOptions & { readonly worker: string }): void {
  const entry = new RosterEntry(input.worker, input);
  for (const slot of node.slots.values()) {
    for (const queue of slot.allQueues) {
      for (const lease of queue.leases.values()) {
        if (lease.worker !== input.worker || lease.reported) continue;
        entry.held++;
        if (entry.queued) entry.queues.add(`${slot.id}/${queue.key}`);
      }
    }
  }
  workerLeft(node, input.worker);
  node.roster.join(entry);
  offerSingles(node);
}

/** Sets the number of items that a worker requests. Returns true if the worker may serve executions that a scan skipped. */
export function workerClaims(
  node: NodeState,
  id: string,
  { max, why }: { readonly max: number; readonly why?: string },
): boolean {
  const worker = node.roster.workers.get(id);
  if (worker === undefined) return false;
  const isNew = worker.fallback && worker.wanted === 0 && max > 0;
  worker.wanted = max;
  worker.why = why ?? null;
  return isNew;
}

/** Requeues the tasks of claims whose attempts have not begun. Returns their executions. */
export function workerReleases(node: NodeState, worker: string, beats: readonly Beat[]): ReadonlySet<Slot> {
  const touched = new Set<Slot>();
  for (const { slot, queue, lease } of leasesOf(node, worker, beats)) {
    if (lease.reported) continue;
    node.lapse(slot, queue, lease);
    touched.add(slot);
  }
  return touched;
}

/** Removes a worker. Returns true if its code enumerated: tasks that must not go to such code may be leased now. */
export function workerLeft(node: NodeState, id: string): boolean {
  const worker = node.roster.workers.get(id);
  if (worker !== undefined) endHold(node, worker);
  node.roster.leave(id, node.now);
  const enumerated = worker?.serves.some(({ enumerates }) => enumerates === true) === true;
  if (enumerated) offerSingles(node);
  return enumerated;
}

/** Offers tasks again that must not be given to code that enumerates. */
function offerSingles(node: NodeState): void {
  for (const slot of node.slots.values())
    if (slot.queues.some(({ state }) => state.needsSingleCode)) node.offerAll(slot);
}
