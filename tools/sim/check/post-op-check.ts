/** Checks that post-operations are performed only when they may be, and that commands are sent correctly. */
import type { PostOpTask } from "../../../src/engine/post-ops/post-ops.ts";
import type { Event } from "../../../src/kernel/event.ts";
import type { Grant } from "../../../src/protocol/work.ts";
import { must } from "../trace.ts";
import type { Effects } from "./effects.ts";
import type { Model } from "./model.ts";

export class PostOpCheck {
  /** Operations with an effect that was seen outside, and operations that were only tried. */
  readonly #seen = new Set<string>();
  readonly #tried = new Set<string>();

  /**
   * Called when a node performs the operation: it must be owed by durable rows, be due, and its predecessors must have begun.
   */
  begun(model: Model | undefined, task: PostOpTask, clock: number): void {
    const { id, attempt, receipt } = task;
    const owed = model?.owes.owed.get(id);
    must(owed !== undefined, `${id}: is performed though nothing durable owes it`);
    must(
      attempt === owed.ended + 1 && receipt === owed.ref.receipt,
      `${id}: try ${attempt} after ${owed.ended}`,
    );
    // The time of an execution never goes back, also if the clock was set back after its last event.
    must(Math.max(clock, model?.at ?? 0) >= owed.until, `${id}: is tried before its time`);
    if (task.op === "broadcast")
      for (let index = 0; index < task.index; index++) {
        const before = `${id.slice(0, id.lastIndexOf("/"))}/${index}`;
        must(this.#tried.has(before), `${id}: begins before the broadcast ahead of it`);
      }
    this.#tried.add(id);
  }

  /** Called when the operation had its effect outside. */
  seen(id: string): void {
    this.#seen.add(id);
  }

  /** Called when the execution was purged and a new one may get its id. */
  forget(execution: string): void {
    for (const known of [this.#seen, this.#tried])
      for (const id of known) if (id.startsWith(`${execution}/`)) known.delete(id);
  }

  /** An operation that is done by the journal was seen outside, and a journaled result was produced by code. */
  read(model: Model, event: Event, effects: Effects): void {
    if (event.kind === "postop.done") {
      const { phase, visit, handler, task, op, index } = event;
      const id = `${model.id}/${phase}/${visit}/${handler}/${task}/${op}/${index}`;
      must(this.#seen.has(id), `${id}: is done by the journal, but was never performed`);
    }
    if (event.kind !== "command.receipted" || event.result === null) return;
    const { cmd_result_enrichment: added } = model.owes.written(event) as {
      cmd_result_enrichment?: { prop_map: readonly { key: string; val: unknown }[] };
    };
    const result = JSON.parse(event.result) as Record<string, unknown>;
    for (const { key, val } of added?.prop_map ?? []) {
      must(result[key] === val, `${model.id}: ${event.phase}/${event.handler} lacks what enrichment adds`);
      delete result[key];
    }
    must(
      effects.wasProduced({ execution: model.id, ...event }, event.task, JSON.stringify(result)),
      `${model.id}: ${event.phase}/${event.handler}#${event.task}: a receipt was produced by code`,
    );
  }

  /** A command must contain the results that it refers to. */
  sent(model: Model, grant: Grant): void {
    const handler = model.plan.definition.phases.find(({ name }) => name === grant.phase)?.handlers[
      grant.handler
    ];
    const data = (handler?.command?.cmd_data ?? {}) as { from?: string };
    const step = /steps\[(\d+)\]/.exec(data.from ?? "")?.[1];
    for (const { task, number } of grant.items) {
      const cmd = JSON.parse(task ?? "null") as { cmd_type?: string; cmd_data?: { from?: unknown } };
      must(
        cmd.cmd_type === handler?.command?.cmd_type,
        `${grant.execution}/${grant.handler}#${number}: another command`,
      );
      if (step === undefined) continue;
      const result = model.owes.results.get(Number(step));
      must(result !== undefined, `${grant.execution}/${grant.handler}: is sent before what it refers to`);
      must(
        cmd.cmd_data?.from === (JSON.parse(result) as { r: unknown }).r,
        `${grant.execution}/${grant.handler}#${number}: carries another result than it refers to`,
      );
    }
  }
}
