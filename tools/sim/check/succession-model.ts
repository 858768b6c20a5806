/** The part of the model of an execution that concerns the executions before and after it under its id. */
import type { Plan } from "../../../src/kernel/definition/plan.ts";
import type { Created, Event, Finished, Newest, TaskStep } from "../../../src/kernel/event.ts";
import { must } from "../trace.ts";
import { ENTITY } from "../workload/program.ts";

/** The name of the workflow of entities. */
const [ENTITY_WORKFLOW] = ENTITY.split(".");

/** The item of an entity that a wait has taken. */
export function takenItem({ result }: TaskStep): string {
  return (JSON.parse(result ?? "null") as { value: { id: string } }).value.id;
}

export class SuccessionModel {
  readonly #id: string;
  input = "";
  /** The place of the execution among those of its id; null for the first one. */
  place: Created["succession"] | null = null;
  /** The input of the execution that continues this one; null if the code has not asked for that. */
  continuing: string | null = null;
  /** The cancel that the execution which continues this one begins with. */
  nextCancelled: string | null = null;
  continuedAs: string | null = null;
  /** In the first execution of an id: the newest one. */
  newest: Newest | null = null;
  /** The items of an entity that the code has taken, in their order. */
  readonly taken: string[] = [];

  constructor(id: string) {
    this.#id = id;
  }

  created({ input, succession }: Created): void {
    this.input = input;
    this.place = succession ?? null;
  }

  step(event: TaskStep, { definition }: Plan): void {
    if (event.reason === "signalled" && definition.name === ENTITY_WORKFLOW)
      this.taken.push(takenItem(event));
  }

  continues({ input, cancel }: Extract<Event, { kind: "continuing" }>): void {
    const isFirst = cancel === undefined;
    must((this.continuing === null) === isFirst, `${this.#id}: its code continues once`);
    must(this.nextCancelled === null, `${this.#id}: hands one cancel on`);
    must(isFirst || this.continuing === input, `${this.#id}: a cancel does not change how it continues`);
    this.continuing = input;
    this.nextCancelled = cancel?.id ?? null;
  }

  told(newest: Newest): void {
    must(
      newest.number >= (this.newest?.number ?? 2),
      `${this.#id}: its newest execution is never an older one`,
    );
    this.newest = newest;
  }

  /** An execution whose code continues is followed by another one, unless it failed or was cancelled. */
  finished({ status, continuedAs }: Finished, isPaused: boolean): void {
    const continues = this.continuing !== null && status === "done";
    must(
      continues === (continuedAs !== undefined),
      `${this.#id}: ends ${status}, continued as ${continuedAs}`,
    );
    if (continuedAs === undefined) return;
    must(!isPaused, `${this.#id}: continues while it is paused`);
    this.continuedAs = continuedAs;
    if (this.place === null) this.newest = { execution: continuedAs, number: 2, isOpen: true };
  }
}
