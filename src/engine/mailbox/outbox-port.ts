/** An engine as whoever publishes its events sees it. */
import type { Partitions } from "../../store/store.ts";
import type { Input, Output } from "../io.ts";

/** Events of one execution; `rows` null: they are to be read from its journal. */
export type EventsOut = Omit<Extract<Output, { kind: "publish" }>, "kind">;

export class OutboxPort {
  readonly #input: (input: Input) => void;
  readonly #scope: () => Partitions;
  #listener: (out: EventsOut) => void = () => {};

  constructor(input: (input: Input) => void, scope: () => Partitions) {
    this.#input = input;
    this.#scope = scope;
  }

  /** The partitions of this node; null: all. */
  get scope(): Partitions {
    return this.#scope();
  }

  /** Calls `listener` with events once they are committed. */
  listen(listener: (out: EventsOut) => void): void {
    this.#listener = listener;
  }

  give(out: EventsOut): void {
    this.#listener(out);
  }

  /** Events of the execution up to this one are published. */
  published(execution: string, seq: number): void {
    this.#input({ kind: "published", execution, seq });
  }

  /** What was given out and not published is given out again. */
  again(): void {
    this.#input({ kind: "publish-again" });
  }
}
