/** All handlers of visits that have queues at the broker, by place: new ones, those of the book, those that are over. */
import { isRejection } from "../../std/rejection.ts";
import { deskKey, type VisitPlace } from "../names.ts";
import type { VisitFacts } from "../write-message.ts";
import type { RegisteredVisit } from "./queue-registry.ts";
import type { VisitParts } from "./visit-parts.ts";
import { VisitQueues } from "./visit-queues.ts";

export class VisitQueueSet {
  readonly #desks = new Map<string, VisitQueues>();
  readonly #parts: VisitParts;
  readonly #onUnused: (use: string) => void;

  /** `onUnused` hears of code that no visit here needs any more. */
  constructor(parts: VisitParts, onUnused: (use: string) => void) {
    this.#parts = parts;
    this.#onUnused = onUnused;
  }

  get size(): number {
    return this.#desks.size;
  }

  /** The wire names of their code. */
  get uses(): ReadonlySet<string> {
    return new Set(Array.from(this.#desks.values(), ({ facts }) => facts.use));
  }

  /** Resolves when what is under way has been done. */
  async idle(): Promise<void> {
    await Promise.all(Array.from(this.#desks.values(), ({ idle }) => idle));
  }

  all(): Iterable<VisitQueues> {
    return this.#desks.values();
  }

  get(place: VisitPlace): VisitQueues | undefined {
    return this.#desks.get(deskKey(place));
  }

  /** The one at this place, made if there is none; `isOld`: it is in the book. */
  at(place: VisitPlace, facts: VisitFacts, isOld = false): VisitQueues {
    let desk = this.get(place);
    if (desk === undefined) {
      desk = new VisitQueues(place, facts, isOld, this.#parts);
      this.#desks.set(desk.key, desk);
    }
    return desk;
  }

  /** The visit of a handler is over, in this round and those before. */
  close(place: VisitPlace): void {
    for (const desk of this.#desks.values()) {
      const { execution, phase, visit, handler, round } = desk.place;
      const isIt = execution === place.execution && phase === place.phase && visit === place.visit;
      if (isIt && handler === place.handler && round <= place.round) this.#close(desk);
    }
  }

  /** Looks after them; those of executions that are another node's by now are left to it. */
  look(): void {
    const { engine } = this.#parts;
    for (const [key, desk] of this.#desks) {
      if (desk.isGone) this.#desks.delete(key);
      else if (engine.isOwn(desk.place.execution)) desk.look();
      else {
        desk.handOver();
        this.#desks.delete(key);
      }
    }
  }

  /** What the book says and nobody here has: queues of before this process, or of another node that has gone. */
  async restore(): Promise<void> {
    const { engine, book } = this.#parts;
    for (const booked of await book.desks())
      if (this.get(booked.place) === undefined && engine.isOwn(booked.place.execution))
        await this.#restore(booked);
  }

  async #restore({ place, use }: RegisteredVisit): Promise<void> {
    const found = await this.#parts.engine.inspect(place.execution);
    if (isRejection(found) && found.code !== "not_found") return;
    const view = isRejection(found) ? null : found.view;
    const input = JSON.stringify(view?.input ?? null);
    if (this.get(place) !== undefined) return;
    const facts = { workflow: view?.workflow ?? "", use, input, timeoutMs: null, batch: 1 };
    const desk = this.at(place, facts, true);
    const isOpen = view?.phases.some(
      ({ name, visit, status }) => name === place.phase && visit === place.visit && status === "running",
    );
    if (isOpen === true && view?.finishedAt === null) desk.open();
    else this.#close(desk);
  }

  #close(desk: VisitQueues): void {
    desk.close();
    void desk.idle.then(() => {
      if (!desk.isGone) return;
      this.#desks.delete(desk.key);
      if (!this.uses.has(desk.facts.use)) this.#onUnused(desk.facts.use);
    });
  }
}
