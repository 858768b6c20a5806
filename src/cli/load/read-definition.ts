/**
 * A workflow from a definition file. Data holds no code, so only a definition that needs none (waits and timers) can be
 * run from it; any other is refused with what to do instead.
 */
import { readFile } from "node:fs/promises";
import { parseDefinition } from "../../kernel/parse-definition.ts";
import { compilePlan, type HandlerPlan, type PhasePlan } from "../../kernel/plan.ts";
import type { AnyWorkflow } from "../../sdk/workflow.ts";
import { isRejection } from "../../std/rejection.ts";
import { CliError } from "../cli-error.ts";
import { EXIT } from "../exit-code.ts";
import { readJson } from "../read-json.ts";

/** The workflow that a .json file defines. */
export async function readDefinition(path: string, file: string): Promise<AnyWorkflow> {
  const data = readJson(await readFile(path, "utf8"), file);
  const definition = parseDefinition(data);
  if (isRejection(definition))
    throw new CliError(
      EXIT.usage,
      `${file} is not a definition: ${definition.message}`,
      definition.hint === undefined ? [] : [definition.hint],
    );
  const uses = compilePlan(definition).phases.flatMap(usesOf);
  if (uses.length > 0)
    throw new CliError(
      EXIT.usage,
      `${file} names handlers that are code (${[...new Set(uses)].join(", ")}), and a data file hosts none`,
      [
        "run a .ts or .js file instead, which exports the workflow with its handlers:",
        `  export const ${asVariable(definition.name)} = workflow({ name: "${definition.name}" }).phase(...);`,
      ],
    );
  return { name: definition.name, definition: data, handlers: [] };
}

function usesOf(phase: PhasePlan): string[] {
  const handlers: HandlerPlan[] = [...phase.handlers, ...(phase.decision === null ? [] : [phase.decision])];
  return handlers.flatMap(({ use, enumerateUse }) => [use, enumerateUse ?? ""]).filter((use) => use !== "");
}

function asVariable(name: string): string {
  return name.replaceAll(/-(\w?)/g, (_, letter: string) => letter.toUpperCase());
}
