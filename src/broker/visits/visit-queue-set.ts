/** The queues of all handlers of visits at the broker, by execution, phase, visit and handler. */

import { isRejection } from "../../std/rejection.ts";
import { TransientMap } from "../../std/transient-map.ts";
import { type VisitPlace, visitKey } from "../names.ts";
import type { VisitFacts } from "../write-message.ts";
import type { RegisteredVisit } from "./queue-registry.ts";
import { type VisitParts, VisitQueues } from "./visit-queues.ts";

export class VisitQueueSet {
  readonly #visits = new TransientMap<string, VisitQueues>();
  readonly #parts: VisitParts;
  readonly #onUnused: (use: string) => void;

  /** `onUnused` is called with code that no visit of this node needs any more. */
  constructor(parts: VisitParts, onUnused: (use: string) => void) {
    this.#parts = parts;
    this.#onUnused = onUnused;
  }

  get size(): number {
    return this.#visits.size;
  }

  /** The wire names of the code of all visits at this node. */
  get uses(): ReadonlySet<string> {
    return new Set(Array.from(this.#visits.values(), ({ facts }) => facts.use));
  }

  async idle(): Promise<void> {
    await Promise.all(Array.from(this.#visits.values(), ({ idle }) => idle));
  }

  all(): Iterable<VisitQueues> {
    return this.#visits.values();
  }

  get(place: VisitPlace): VisitQueues | undefined {
    return this.#visits.get(visitKey(place));
  }

  /**
   * Returns the queues of this handler of a visit, and creates them if there are none. `isOld` says that an earlier process registered
   * them.
   */
  getOrAdd(place: VisitPlace, facts: VisitFacts, isOld = false): VisitQueues {
    let visit = this.get(place);
    if (visit === undefined) {
      visit = new VisitQueues(place, facts, isOld, this.#parts);
      this.#visits.set(visit.key, visit);
    }
    return visit;
  }

  /** Called when the visit of a handler is over. Deletes its queues of this round and of earlier rounds. */
  close(place: VisitPlace): void {
    for (const queues of this.#visits.values()) {
      const { execution, phase, visit, handler, round } = queues.place;
      const isIt = execution === place.execution && phase === place.phase && visit === place.visit;
      if (isIt && handler === place.handler && round <= place.round) this.#close(queues);
    }
  }

  /** Checks all queues. Queues of executions that another node owns now are left to that node. */
  check(): void {
    const { engine } = this.#parts;
    for (const [key, visit] of this.#visits) {
      if (visit.isGone) this.#visits.delete(key);
      else if (engine.isOwn(visit.place.execution)) visit.check();
      else {
        visit.handOver();
        this.#visits.delete(key);
      }
    }
  }

  /** Adds registered queues that this node does not have in memory: a process or node that has ended declared them. */
  async restore(): Promise<void> {
    const { engine, queueRegistry } = this.#parts;
    for (const registered of await queueRegistry.visits())
      if (this.get(registered.place) === undefined && engine.isOwn(registered.place.execution))
        await this.#restore(registered);
  }

  async #restore({ place, use }: RegisteredVisit): Promise<void> {
    const found = await this.#parts.engine.inspect(place.execution);
    if (isRejection(found) && found.code !== "not_found") return;
    const view = isRejection(found) ? null : found.view;
    const input = JSON.stringify(view?.input ?? null);
    if (this.get(place) !== undefined) return;
    const facts = { workflow: view?.workflow ?? "", use, input, timeoutMs: null, batch: 1 };
    const queues = this.getOrAdd(place, facts, true);
    const isOpen = view?.phases.some(
      ({ name, visit, status }) => name === place.phase && visit === place.visit && status === "running",
    );
    if (isOpen === true && view?.finishedAt === null) queues.open();
    else this.#close(queues);
  }

  #close(visit: VisitQueues): void {
    visit.close();
    void visit.idle.then(() => {
      if (!visit.isGone) return;
      this.#visits.delete(visit.key);
      if (!this.uses.has(visit.facts.use)) this.#onUnused(visit.facts.use);
    });
  }
}
