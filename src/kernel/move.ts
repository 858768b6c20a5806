/**
 * Moves an open execution to another definition of its workflow. The rule: phases that have begun must have the same meaning
 * under the new definition. So every phase that was visited exists there, with the same handlers, whose tasks have the same kind of
 * source. Everything later is that of the new definition: phases, `next`, `returns`, options and ranges of versions. Attempts that
 * run go on.
 */
import { isRejection, type Rejection, reject } from "../std/rejection.ts";
import { advance } from "./advance.ts";
import { handlerOf, planOfText } from "./apply-moved.ts";
import { NEXT } from "./definition/definition.ts";
import type { HandlerPlan, PhasePlan, Plan } from "./definition/plan.ts";
import type { Execution } from "./execution.ts";
import type { Answer, MoveMessage } from "./message.ts";
import { isRelayName } from "./relay/relay.ts";
import type { Step } from "./step.ts";

/** The most differences that a refusal names. */
const SHOWN = 5;

/** Moves the execution to the definition of the message, or refuses with the differences. */
export function move(step: Step, message: MoveMessage): Answer {
  const { execution } = step;
  const { id, by, reason, definition, dryRun } = message;
  const before = execution.applied.get(id);
  if (before !== undefined) return { kind: "applied", seq: before };
  const plan = planOfText(definition);
  if (isRejection(plan)) return plan;
  const refusal = refuseMove(execution, plan);
  if (refusal !== null) return refusal;
  if (plan.hash === execution.plan.hash) return { kind: "ignored", why: "it has this definition already" };
  if (dryRun === true) return { kind: "ignored", why: "it is a dry run" };
  const version = plan.definition.version ?? null;
  step.emit({ kind: "moved", hash: plan.hash, version, definition, by, reason, id });
  const { seq } = execution;
  advance(step);
  return { kind: "applied", seq };
}

/** Why the execution cannot be moved to the plan; null if it can. */
function refuseMove(execution: Execution, plan: Plan): Rejection | null {
  const { id, shownStatus } = execution;
  const { name } = execution.plan.definition;
  if (isRelayName(name))
    return reject("wrong_status", `execution ${id} passes events on and cannot be moved`);
  if (execution.ended || execution.status === "cancelling" || execution.ending !== null)
    return reject("wrong_status", `execution ${id} is ${shownStatus} and cannot be moved`, {
      hint: "only an execution that works or is paused can be moved; one that failed can be retried first",
    });
  if (plan.definition.name !== name)
    return reject("conflict", `execution ${id} is one of "${name}", not of "${plan.definition.name}"`);
  const all = differences(execution, plan);
  // @plant move accepts any definition
  if (all.length === 0) return null;
  const more = all.length > SHOWN ? `; and ${all.length - SHOWN} more` : "";
  return reject("conflict", `execution ${id} cannot be moved: ${all.slice(0, SHOWN).join("; ")}${more}`, {
    hint: "phases that have begun must be the same in the new definition; serve the old version until the execution has ended",
  });
}

/** Describes how the phases that the execution has begun differ in the plan. */
function differences(execution: Execution, plan: Plan): string[] {
  const found: string[] = [];
  const { plan: old, due, hasBegun } = execution;
  for (const name of execution.visitCounts.keys()) {
    const [before, after] = [old.byName.get(name), plan.byName.get(name)];
    if (before === undefined) continue;
    if (after === undefined) found.push(`phase "${name}" has begun and is missing`);
    else found.push(...phaseDifferences(before, after));
    if (after !== undefined && isCleanup(old, name) !== isCleanup(plan, name))
      found.push(`phase "${name}" has begun and belongs to the clean-up in one of the definitions only`);
  }
  const next = due < 0 || !hasBegun ? undefined : old.phases[due]?.name;
  if (next !== undefined && !plan.byName.has(next))
    found.push(`phase "${next}" is to start next and is missing`);
  if (JSON.stringify(commandsOf(old)) !== JSON.stringify(commandsOf(plan))) found.push("its commands differ");
  if (found.length === 0) found.push(...openDifferences(execution, plan));
  return found;
}

/** Differences that matter only for the visit that is open. */
function openDifferences({ current }: Execution, plan: Plan): string[] {
  const after = current === null ? undefined : plan.byName.get(current.plan.name);
  if (current === null || after === undefined) return [];
  const found: string[] = [];
  const { name } = current.plan;
  if (current.handler(NEXT) !== undefined && after.decision === null)
    found.push(`the decision of phase "${name}" has begun, and it has no code for one`);
  for (const { plan: before, tasks } of current.handlers) {
    const isOutput = handlerOf(after, before.name)?.isOutput === true;
    if (isOutput && !before.isOutput && tasks.settled.size > 0)
      found.push(`the result of phase "${name}" would be the output, and its task is settled already`);
  }
  return found;
}

function phaseDifferences(before: PhasePlan, after: PhasePlan): string[] {
  const found: string[] = [];
  const at = `phase "${before.name}"`;
  for (const handler of before.handlers) {
    const other = after.handlers.find(({ name }) => name === handler.name);
    if (other === undefined) found.push(`${at} has begun, and its handler "${handler.name}" is missing`);
    else if (shapeOf(handler) !== shapeOf(other))
      found.push(
        `${at} has begun, and its handler "${handler.name}" was ${shapeOf(handler)} and is ${shapeOf(other)}`,
      );
  }
  for (const { name } of after.handlers)
    if (!before.handlers.some((handler) => handler.name === name))
      found.push(`${at} has begun, and its handler "${name}" is new`);
  return found;
}

/** Describes the parts of a handler that the state of its tasks depends on. */
function shapeOf({ mode, definition, enumerateUse, isCompensated, adds }: HandlerPlan): string {
  const { tasks, identity, after, waitFor, workflow, script } = definition;
  const source =
    enumerateUse !== null ? "enumerated tasks" : tasks !== undefined ? "listed tasks" : "one task";
  const kind =
    mode === "waitFor"
      ? `a wait for "${waitFor}"`
      : mode === "workflow"
        ? `children of "${workflow}" for ${source}`
        : mode === "script"
          ? `a script of ${JSON.stringify(script?.map(({ name }) => name))} for ${source}`
          : mode === "use"
            ? `code for ${source}`
            : mode === "sleep"
              ? "a sleep"
              : `a command for ${source}`;
  const more = [
    ...(identity === undefined ? [] : ["identity"]),
    ...(after === undefined ? [] : ["after"]),
    ...(adds ? ["added tasks"] : []),
    ...(isCompensated ? ["compensation"] : []),
  ];
  return more.length === 0 ? kind : `${kind} with ${more.join(", ")}`;
}

function isCleanup({ definition: { onCancel, onFailure, finally: last } }: Plan, name: string): boolean {
  return [onCancel, onFailure, last].includes(name);
}

function commandsOf({ commands }: Plan): readonly (readonly string[])[] {
  return commands.map(({ phase, handler, command }) => [phase.name, handler.name, command.hash]);
}
