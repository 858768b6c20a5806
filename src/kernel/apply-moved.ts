/**
 * Applies a move to another definition (move.ts decides it). The event and snapshots contain the definition, so that the state is
 * a function of the journal and of the definition with which the execution was created.
 */
import { assert } from "../std/assert.ts";
import { isRejection, type Rejection } from "../std/rejection.ts";
import { NEXT } from "./definition/definition.ts";
import { parseStored } from "./definition/parse-definition.ts";
import { compilePlan, type HandlerPlan, type PhasePlan, type Plan } from "./definition/plan.ts";
import type { Moved } from "./event.ts";
import type { Execution, Visit } from "./execution.ts";

/** The most plans of moved executions that are kept, so that the same definition is compiled once. */
const PLANS_MAX = 64;

/** Applies the event: the state stays, and its plans are those of the new definition. */
export function applyMoved(execution: Execution, { id, definition }: Moved): void {
  const plan = planOfText(definition);
  assert(!isRejection(plan), "a definition that an execution was moved to is readable");
  const { due } = execution;
  const next = execution.plan.phases[due]?.name;
  execution.applied.set(id, execution.seq);
  execution.plan = plan;
  execution.moved = definition;
  if (due >= 0) execution.due = execution.hasBegun ? (plan.byName.get(next ?? "")?.index ?? -1) : plan.first;
  for (const visit of visitsOf(execution)) replan(visit, plan);
}

/** The visits in the state. After a snapshot is read, some are copies of one visit. */
function visitsOf({ current, origin, formerEnd, kept }: Execution): Set<Visit> {
  const all = [current, origin, formerEnd?.back?.visit ?? null, ...kept];
  return new Set(all.filter((visit) => visit !== null));
}

function replan(visit: Visit, plan: Plan): void {
  const phase = plan.byName.get(visit.plan.name);
  assert(phase !== undefined, "a phase that has begun is in the new plan");
  visit.plan = phase;
  for (const handler of visit.handlers) {
    const found = handlerOf(phase, handler.plan.name);
    // @plant move keeps the old versions of code
    if (found !== undefined) handler.plan = found;
  }
}

/** The plan of a handler of a phase, or of its decision. */
export function handlerOf({ handlers, decision }: PhasePlan, name: string): HandlerPlan | undefined {
  return name === NEXT ? (decision ?? undefined) : handlers.find((handler) => handler.name === name);
}

const plans = new Map<string, Plan>();

/** Compiles the text of a definition; a rejection if this version of Rondo cannot read it. */
export function planOfText(text: string): Plan | Rejection {
  const known = plans.get(text);
  if (known !== undefined) return known;
  const definition = parseStored(JSON.parse(text));
  if (isRejection(definition)) return definition;
  const plan = compilePlan(definition);
  plans.set(text, plan);
  for (const oldest of plans.keys()) {
    if (plans.size <= PLANS_MAX) break;
    plans.delete(oldest);
  }
  return plan;
}
