/** What workers say to a node: they come and go, ask for work, report, beat, give back, and have passed commands on. */

import type { ExecutionCache } from "../cache/execution-cache.ts";
import type { ReportAnswer } from "../cache/slot.ts";
import type { AfterCommit } from "../commit/after-commit.ts";
import type { Input } from "../io.ts";
import { beat, noteArrival } from "../leases/report-intake.ts";
import type { NodeState } from "../node-state.ts";
import { noteSent } from "./sent-commands.ts";
import { workerClaims, workerJoined, workerLeft, workerReleases } from "./worker-arrivals.ts";

/** What workers do, beside vouching for an attempt when they are asked. */
type WorkerWord = "joined" | "claims" | "reports" | "beats" | "releases" | "sent" | "left";

export class WorkerInputs {
  readonly #node: NodeState;
  readonly #parts: { readonly cache: ExecutionCache; readonly afterCommit: AfterCommit };

  constructor(node: NodeState, parts: { readonly cache: ExecutionCache; readonly afterCommit: AfterCommit }) {
    this.#node = node;
    this.#parts = parts;
  }

  /** What a worker says. */
  hear(input: Extract<Input, { kind: `worker-${WorkerWord}` }>): void {
    const node = this.#node;
    switch (input.kind) {
      case "worker-joined":
        workerJoined(node, input);
        return this.#parts.cache.rescan();
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
    input.reports.forEach((report, index) => {
      const queued = { kind: "report", report, worker: input.worker, answer, index } as const;
      if (this.#node.tenures.of(report.execution) === undefined)
        return this.#parts.afterCommit.turnAway(report.execution, queued);
      const slot = this.#parts.cache.slot(report.execution);
      noteArrival(this.#node, slot, report);
      this.#node.enqueue(slot, queued);
    });
  }

  #beats(input: Extract<Input, { kind: "worker-beats" }>): void {
    for (const one of input.beats) {
      if (this.#node.tenures.of(one.execution) === undefined) continue;
      const slot = this.#parts.cache.slot(one.execution);
      if (slot.status === "loading") slot.beats.push({ beat: one, worker: input.worker });
      else beat(this.#node, slot, one, input.worker);
    }
  }

  /** What is not in memory is loaded first: its commands may be at a broker. */
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
