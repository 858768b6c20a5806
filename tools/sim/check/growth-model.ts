/**
 * A model of tasks that add tasks and wait for tasks, read from the journal. It is simpler than the kernel: it searches instead
 * of counting, and shares no code with it.
 */
import type { HandlerPlan } from "../../../src/kernel/definition/plan.ts";
import type { TasksEnumerated } from "../../../src/kernel/event.ts";
import { must } from "../trace.ts";
import { addedTexts } from "../workload/growth.ts";

/** What the model reads of its handler. */
interface Handler {
  readonly plan: HandlerPlan;
  readonly total: number;
  readonly sealed: boolean;
  readonly settled: ReadonlyMap<number, { readonly status: string }>;
  /** In a round of chosen tasks, these tasks; null if every task may run. */
  readonly chosen: ReadonlySet<number> | null;
}

interface Growth {
  /** The text that all draws of the handler have in common. */
  readonly seed: string;
  /** The number of tasks that the handler's enumeration gives. */
  readonly count: number;
}

export class GrowthModel {
  readonly #handler: Handler;
  readonly #at: string;
  readonly #growth: Growth;
  readonly #texts: string[] = [];
  readonly #tasks = new Map<string, number>();
  /** Texts that done tasks have added and that are not journaled yet, by the task that added them. */
  readonly #owed = new Map<number, string[]>();
  /** The number of tasks that the enumeration gave. */
  enumerated = 0;

  constructor(handler: Handler, at: string, growth: Growth) {
    this.#handler = handler;
    this.#at = at;
    this.#growth = growth;
  }

  page({ tasks, addedBy }: TasksEnumerated): void {
    const { definition } = this.#handler.plan;
    tasks.forEach((text, i) => {
      const by = addedBy?.[i];
      if (by === undefined) this.enumerated++;
      else {
        const owed = this.#owed.get(by) ?? [];
        const at = owed.indexOf(text);
        must(at >= 0, `${this.#at}: task ${by} adds ${text}, which it does not add or has added already`);
        owed.splice(at, 1);
      }
      const { id } = JSON.parse(text) as { id?: string };
      if (definition.identity !== undefined && id !== undefined) this.#tasks.set(id, this.#texts.length);
      this.#texts.push(text);
    });
  }

  /** Called when a task is done: what it adds is journaled next. */
  done(task: number): void {
    const { plan } = this.#handler;
    must(
      this.openDependency(task) === null,
      `${this.#at}#${task}: is done before ${this.openDependency(task)}`,
    );
    if (!plan.adds) return;
    const { seed, count } = this.#growth;
    this.#owed.set(task, [...addedTexts(seed, this.#texts[task] ?? "{}", count, plan.definition)]);
  }

  /** Nothing that a task has added is missing. */
  checkComplete(): void {
    const { identity } = this.#handler.plan.definition;
    for (const [task, texts] of this.#owed)
      for (const text of texts) {
        const { id } = JSON.parse(text) as { id: string };
        must(
          identity !== undefined && this.#tasks.has(id),
          `${this.#at}: the handler ends, and ${text}, which task ${task} added, is missing`,
        );
      }
  }

  /** The identity of a dependency of the task that is not done; null if all of them are done. */
  openDependency(task: number): string | null {
    return this.#dependencies(task).find((name) => !this.#isDone(name)) ?? null;
  }

  /** A verdict that the task waits in vain must be true. */
  checkVerdict(task: number, reason: string | null): void {
    const at = `${this.#at}#${task}: ${reason}`;
    const open = this.#dependencies(task).filter((name) => !this.#isDone(name));
    if (reason === "dependency_failed")
      must(
        open.some((name) => this.#hasFailed(name)),
        `${at}, but none of ${open.join()} has failed`,
      );
    if (reason !== "unknown_dependency" && reason !== "dependency_cycle") return;
    const { settled, total, chosen } = this.#handler;
    for (let other = 0; other < total; other++)
      must(
        settled.has(other) || chosen?.has(other) === false || this.openDependency(other) !== null,
        `${at}, but task ${other} can run`,
      );
    if (reason === "unknown_dependency")
      must(
        open.some((name) => !this.#tasks.has(name)),
        `${at}, but all of ${open.join()} are known`,
      );
    else must(this.#reaches(task, task, new Set()), `${at}, but it does not wait for itself`);
  }

  #dependencies(task: number): readonly string[] {
    if (this.#handler.plan.definition.after === undefined) return [];
    const { after = [] } = JSON.parse(this.#texts[task] ?? "{}") as { after?: readonly string[] };
    return after;
  }

  #isDone(name: string): boolean {
    const task = this.#tasks.get(name);
    return task !== undefined && this.#handler.settled.get(task)?.status === "done";
  }

  #hasFailed(name: string): boolean {
    const task = this.#tasks.get(name);
    if (task === undefined) return false;
    const { settled, chosen } = this.#handler;
    const status = settled.get(task)?.status;
    return status === undefined ? chosen?.has(task) === false : status !== "done";
  }

  #reaches(from: number, to: number, seen: Set<number>): boolean {
    for (const name of this.#dependencies(from)) {
      const task = this.#tasks.get(name);
      if (task === undefined || this.#isDone(name)) continue;
      if (task === to) return true;
      if (seen.has(task)) continue;
      seen.add(task);
      if (this.#reaches(task, to, seen)) return true;
    }
    return false;
  }
}
