/**
 * Applies the move of an execution to another definition, which move.ts decides. The event and later snapshots contain the new
 * definition. So the state follows from the journal and the definition with which the execution was created.
 */
import { assert } from "../std/assert.ts";
import { isRejection, type Rejection } from "../std/rejection.ts";
import { NEXT } from "./definition/definition.ts";
import { parseStored } from "./definition/parse-definition.ts";
import { compilePlan, type HandlerPlan, type PhasePlan, type Plan } from "./definition/plan.ts";
import type { Moved } from "./event.ts";
import type { Execution, Visit } from "./execution.ts";

/** The most plans of moved executions in a cache, so that a definition is not compiled for each of them. */
const PLANS_MAX = 64;

/** Applies the move: the state stays, and its plans are replaced by those of the new definition. */
export function applyMoved(execution: Execution, { id, definition }: Moved): void {
  const plan = planOfText(definition);
  assert(!isRejection(plan), "the definition to which an execution was moved must be readable");
  const { due } = execution;
  const next = execution.plan.phases[due]?.name;
  execution.applied.set(id, execution.seq);
  execution.plan = plan;
  execution.moved = definition;
  if (due >= 0) execution.due = execution.hasBegun ? (plan.byName.get(next ?? "")?.index ?? -1) : plan.first;
  for (const visit of visitsOf(execution)) replan(visit, plan);
}

/** Returns all visits in the state. After a snapshot is read, some of them are copies of the same visit. */
function visitsOf({ current, origin, formerEnd, kept }: Execution): Set<Visit> {
  const all = [current, origin, formerEnd?.back?.visit ?? null, ...kept];
  return new Set(all.filter((visit) => visit !== null));
}

function replan(visit: Visit, plan: Plan): void {
  const phase = plan.byName.get(visit.plan.name);
  assert(phase !== undefined, "the new plan must contain every phase that has begun");
  visit.plan = phase;
  for (const handler of visit.handlers) {
    const found = handlerOf(phase, handler.plan.name);
    // @plant move keeps the old versions of code
    if (found !== undefined) handler.plan = found;
  }
}

/** Returns the plan of a handler of a phase, or of the handler that decides the next phase. */
export function handlerOf({ handlers, decision }: PhasePlan, name: string): HandlerPlan | undefined {
  return name === NEXT ? (decision ?? undefined) : handlers.find((handler) => handler.name === name);
}

const plans = new Map<string, Plan>();

/** Compiles the text of a definition. Returns a rejection if this version of Rondo cannot read it. */
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
