/** Checks a workflow as a whole, which its builder cannot: phases may name others that are declared later. */
import type { WorkflowData } from "./builder.ts";
import { invalid } from "./check.ts";
import type { PhaseData } from "./phase.ts";

/** Throws what is wrong with a workflow that is complete; engines check the same when they are given one. */
export function checkWorkflow(workflow: { readonly definition: WorkflowData }): void {
  const { phases } = workflow.definition;
  if (phases.length === 0)
    throw invalid("phases", "a workflow needs at least one phase", "add one with .phase(name, handler)");
  checkTargets(phases);
  checkRepairs(phases);
}

function checkTargets(phases: readonly PhaseData[]): void {
  const names = phases.map(({ name }) => name);
  const check = (target: string, at: string) => {
    if (!names.includes(target))
      throw invalid(
        at,
        `names the phase "${target}", which does not exist`,
        `the phases are: ${names.join(", ")}`,
      );
  };
  for (const { name, next, onError } of phases) {
    const at = `phase "${name}"`;
    if (typeof next === "string") check(next, `${at}.next`);
    else for (const target of next?.among ?? []) check(target, `${at}.next.among`);
    if (onError === undefined) continue;
    check(onError, `${at}.onError`);
    if (onError === name)
      throw invalid(`${at}.onError`, "names the phase itself", "use retry to run tasks again");
  }
}

/** A phase that repairs others is entered by `onError`, never by mere order. */
function checkRepairs(phases: readonly PhaseData[]): void {
  phases.forEach(({ name }, i) => {
    const repaired = phases.findLast(({ onError }) => onError === name);
    if (repaired === undefined) return;
    const before = phases[i - 1];
    if (before !== undefined && (before.final !== undefined || before.next !== undefined)) return;
    throw invalid(
      `phase "${name}"`,
      `repairs "${repaired.name}" by onError, but is also reached ${before ? `after "${before.name}"` : "first"} by default order`,
      before ? `make "${before.name}" final, or give it a next` : "move it behind a final phase",
    );
  });
}
