/** Checks parents against children: the journals of both must agree. Runs after all durable rows were read. */
import type { Event } from "../../../src/kernel/event.ts";
import type { MailboxMessage } from "../../../src/store/store.ts";
import { must } from "../trace.ts";
import type { Model } from "./model.ts";

export class Families {
  readonly #find: (id: string) => Model | undefined;
  /** Mailbox messages that were ever sent, as receiver, kind and message id; and the same by their own ids. */
  readonly #sent = new Set<string>();
  readonly #letters = new Map<string, { to: string; kind: string; id: string | undefined }>();
  #open: (() => void)[] = [];

  /** `find` returns the model of an execution, even if it was purged. */
  constructor(find: (id: string) => Model | undefined) {
    this.#find = find;
  }

  /** Called when a commit with these mailbox messages was made. */
  sent(messages: readonly MailboxMessage[]): void {
    for (const { id: letter, to, body } of messages) {
      const { kind, id } = JSON.parse(body) as { kind: string; id?: string };
      this.#sent.add(`${to} ${kind} ${id}`);
      this.#letters.set(letter, { to, kind, id });
    }
  }

  /** Called when a commit took this mailbox message: a child that must stop or pause has got the request. */
  taken(letter: string, isStored: (letter: string) => boolean): void {
    const { to = "", kind, id = "" } = this.#letters.get(letter) ?? {};
    if (kind !== "cancel" && kind !== "pause") return;
    this.#open.push(() => {
      const child = this.#find(to);
      // A child that its user has also paused may be resumed by now.
      const isCleaning = child?.cleanup.ending !== null;
      const isHeard =
        kind === "pause" || child?.status === "cancelling" || isCleaning || child.ids.has(id) === true;
      const isThere = child !== undefined && (child.ended || isHeard);
      must(isThere || isStored(letter), `${to}: is told to ${kind}, and is ${child?.status ?? "not there"}`);
    });
  }

  read(model: Model, event: Event): void {
    if (event.kind === "paused") this.#checkTold(model, "pause", event.id);
    else if (event.kind === "resumed") this.#checkTold(model, "resume", event.id);
    if (model.isDraining && model.visit !== null) {
      const { phase, visit } = model.visit;
      this.#checkTold(model, "cancel", `drain~${phase}~${visit}~${model.round}~${model.createdAt}`);
    }
    if (event.kind === "created") this.#open.push(() => this.#checkCreated(model));
    else if (event.kind === "child.finished") {
      const { child, status, task } = event;
      const handler = model.handler(event);
      this.#open.push(() => {
        const ended = this.#find(child);
        // A user may have retried the clean-up of the child before its parent counted the child. That does not change how it ended.
        const isOver = ended?.ended === true || ended?.cleanup.ending?.status === status;
        must(
          isOver && ended?.cleanup.endedAs === status,
          `${model.id}: child ${child} of #${task} counts as ${status}, but is ${ended?.status}`,
        );
      });
      const own = [...(handler?.eachChild() ?? [])].some((one) => one.child === child);
      must(own, `${model.id}: counts a child of its own`);
    } else if (event.kind === "task.step" && event.reason === "child" && event.error === null) {
      const child = model.handler(event)?.taskChildren.get(`${event.task}/${event.name}`)?.child ?? "";
      this.#open.push(() =>
        must(
          (this.#find(child)?.output ?? "null") === event.result,
          `${model.id}: the answer of ${event.name} is its child's output`,
        ),
      );
    } else if (event.kind === "tasks.settled") this.#checkResults(model, event);
  }

  /** Called when all durable rows were read. */
  settle(): void {
    for (const check of this.#open.splice(0)) check();
  }

  /** At the end of a run: every requested child exists or existed, and has ended. */
  checkEnd(model: Model): void {
    for (const handler of model.visit?.handlers.values() ?? [])
      for (const { child, isOpen } of handler.eachChild())
        must(
          !isOpen && this.#find(child)?.ended === true,
          `${model.id}: child ${child} exists and has ended`,
        );
  }

  /** Open children get their parent's pause, cancel or resume in the same commit. */
  #checkTold(model: Model, kind: string, id: string): void {
    for (const handler of model.visit?.handlers.values() ?? [])
      for (const { child, isOpen } of handler.eachChild())
        must(
          !isOpen || this.#sent.has(`${child} ${kind} ${id}~parent`),
          `${model.id}: its child ${child} is not told to ${kind}`,
        );
  }

  #checkCreated({ id, parent }: Model): void {
    if (parent === null) return;
    const asker = this.#find(parent.execution);
    const handler = asker?.handler(parent);
    const asked =
      parent.name === undefined
        ? handler?.children.get(parent.task)
        : handler?.taskChildren.get(`${parent.task}/${parent.name}`);
    must(
      asker?.ended === false && asked?.isOpen === true && asked.child === id,
      `${id}: a child exists because its parent waits for it (${parent.execution} is ${asker?.status})`,
    );
  }

  #checkResults(model: Model, event: Extract<Event, { kind: "tasks.settled" }>): void {
    const handler = model.handler(event);
    if (handler?.plan.mode !== "workflow") return;
    event.tasks.forEach((task, i) => {
      const child = handler.children.get(task)?.child ?? "";
      if (event.statuses[i] !== "done") return;
      this.#open.push(() =>
        must(
          (this.#find(child)?.output ?? "null") === event.payloads[i],
          `${model.id}: the result of #${task} is its child's output`,
        ),
      );
    });
  }
}
