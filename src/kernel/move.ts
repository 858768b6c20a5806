/**
 * Moves an open execution to another definition of its workflow. Phases that have begun must have the same meaning in the new
 * definition: every visited phase must exist there with the same handlers, whose tasks come from the same kind of source. Everything
 * else is taken from the new definition: later phases, `next`, `returns`, options and ranges of versions. Running attempts go on.
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

/** The most differences that the refusal of a move lists. */
const SHOWN = 5;

/** Moves the execution to the definition in the message, or refuses the move and lists the differences. */
export function move(step: Step, message: MoveMessage): Answer {
  const { execution } = step;
  const { id, by, reason, definition, dryRun } = message;
  const before = execution.applied.get(id);
  if (before !== undefined) return { kind: "applied", seq: before };
  const plan = planOfText(definition);
  if (isRejection(plan)) return plan;
  const refusal = refuseMove(execution, plan);
  if (refusal !== null) return refusal;
  if (plan.hash === execution.plan.hash)
    return { kind: "ignored", why: "the execution has this definition already" };
  if (dryRun === true) return { kind: "ignored", why: "nothing was changed: this is a dry run" };
  const version = plan.definition.version ?? null;
  step.emit({ kind: "moved", hash: plan.hash, version, definition, by, reason, id });
  const { seq } = execution;
  advance(step);
  return { kind: "applied", seq };
}

/** Returns why the execution cannot be moved to the plan; null if it can. */
function refuseMove(execution: Execution, plan: Plan): Rejection | null {
  const { id, shownStatus } = execution;
  const { name } = execution.plan.definition;
  if (isRelayName(name))
    return reject("wrong_status", `execution ${id} passes events on and cannot be moved`);
  if (execution.ended || execution.status === "cancelling" || execution.ending !== null)
    return reject("wrong_status", `execution ${id} is ${shownStatus} and cannot be moved`, {
      hint: "only a running or paused execution can be moved; retry a failed one first",
    });
  if (plan.definition.name !== name)
    return reject(
      "conflict",
      `execution ${id} belongs to the workflow "${name}", not to "${plan.definition.name}"`,
    );
  const all = differences(execution, plan);
  // @plant move accepts any definition
  if (all.length === 0) return null;
  const more = all.length > SHOWN ? `; and ${all.length - SHOWN} more` : "";
  return reject("conflict", `execution ${id} cannot be moved: ${all.slice(0, SHOWN).join("; ")}${more}`, {
    hint: "phases that have begun must be the same in the new definition; serve the old version until the execution has ended",
  });
}

/** Returns descriptions of the differences between the phases that have begun and the same phases in the new plan. */
function differences(execution: Execution, plan: Plan): string[] {
  const found: string[] = [];
  const { plan: old, due, hasBegun } = execution;
  for (const name of execution.visitCounts.keys()) {
    const [before, after] = [old.byName.get(name), plan.byName.get(name)];
    if (before === undefined) continue;
    if (after === undefined) found.push(`phase "${name}" has begun, but is missing in the new definition`);
    else found.push(...phaseDifferences(before, after));
    if (after !== undefined && isCleanup(old, name) !== isCleanup(plan, name))
      found.push(`phase "${name}" has begun, but belongs to the clean-up in only one of the two definitions`);
  }
  const next = due < 0 || !hasBegun ? undefined : old.phases[due]?.name;
  if (next !== undefined && !plan.byName.has(next))
    found.push(`phase "${next}" starts next, but is missing in the new definition`);
  if (JSON.stringify(commandsOf(old)) !== JSON.stringify(commandsOf(plan))) found.push("its commands differ");
  if (found.length === 0) found.push(...openDifferences(execution, plan));
  return found;
}

/** Returns the differences that matter only for the open visit. */
function openDifferences({ current }: Execution, plan: Plan): string[] {
  const after = current === null ? undefined : plan.byName.get(current.plan.name);
  if (current === null || after === undefined) return [];
  const found: string[] = [];
  const { name } = current.plan;
  if (current.handler(NEXT) !== undefined && after.decision === null)
    found.push(`the decision of phase "${name}" has begun, but the new definition has none`);
  for (const { plan: before, tasks } of current.handlers) {
    const isOutput = handlerOf(after, before.name)?.isOutput === true;
    if (isOutput && !before.isOutput && tasks.settled.size > 0)
      found.push(`the result of phase "${name}" would become the output, but its task is settled already`);
  }
  return found;
}

function phaseDifferences(before: PhasePlan, after: PhasePlan): string[] {
  const found: string[] = [];
  const at = `phase "${before.name}"`;
  for (const handler of before.handlers) {
    const other = after.handlers.find(({ name }) => name === handler.name);
    if (other === undefined)
      found.push(`${at} has begun, but its handler "${handler.name}" is missing in the new definition`);
    else if (shapeOf(handler) !== shapeOf(other))
      found.push(
        `${at} has begun, and its handler "${handler.name}" was ${shapeOf(handler)} and is ${shapeOf(other)}`,
      );
  }
  for (const { name } of after.handlers)
    if (!before.handlers.some((handler) => handler.name === name))
      found.push(`${at} has begun, but its handler "${name}" is only in the new definition`);
  return found;
}

/** Describes those properties of a handler on which the state of its tasks depends. */
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
