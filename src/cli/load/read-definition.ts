/** Reads a workflow from a definition file in JSON or YAML, which has no code. */
import { readFile } from "node:fs/promises";
import { extname } from "node:path";
import { topicOf } from "../../kernel/command/topic-rules.ts";
import { parseDefinition } from "../../kernel/definition/parse-definition.ts";
import { compilePlan, type HandlerPlan, type PhasePlan, SCRIPT_USE } from "../../kernel/definition/plan.ts";
import type { AnyWorkflow } from "../../sdk/workflow.ts";
import { isRejection, unwrap } from "../../std/rejection.ts";
import { CliError } from "../cli-error.ts";
import { codeFrame } from "../code-frame.ts";
import { EXIT } from "../exit-code.ts";
import { readJson } from "../read-json.ts";

/** Reads the workflow that a .json, .yaml or .yml file defines. */
export async function readDefinition(path: string, file: string): Promise<AnyWorkflow> {
  const text = await readFile(path, "utf8");
  const data = extname(path) === ".json" ? readJson(text, file) : await readYaml(text, file);
  const definition = parseDefinition(data);
  if (isRejection(definition))
    throw new CliError(
      EXIT.usage,
      `${file} is not a definition: ${definition.message}`,
      definition.hint === undefined ? [] : [definition.hint],
    );
  // The definition is sent in its canonical form, which servers of earlier versions can read too.
  return { name: definition.name, definition, handlers: [] };
}

/** Refuses a workflow from a data file whose definition names code, because the file cannot contain that code. */
export function refuseWithoutCode({ definition, handlers, name }: AnyWorkflow, file: string): void {
  if (handlers.length > 0) return;
  const uses = compilePlan(unwrap(parseDefinition(definition))).phases.flatMap(usesOf);
  if (uses.length === 0) return;
  throw new CliError(
    EXIT.usage,
    `${file} is a data file without code, but its handlers are code (${[...new Set(uses)].join(", ")})`,
    [
      "run a .ts or .js file instead, which exports the workflow with its handlers:",
      `  export const ${asVariable(name)} = workflow({ name: "${name}" }).phase(...);`,
      "or start a server, and a worker that has the handlers: rondo start, and rondo worker FILES",
    ],
  );
}

/** Parses YAML. */
export async function readYaml(text: string, file: string): Promise<unknown> {
  const { parseDocument } = await import("yaml");
  const document = parseDocument(text, { prettyErrors: false });
  const [error] = document.errors;
  if (error !== undefined) {
    const before = text.slice(0, error.pos[0]).split("\n");
    const place = { line: before.length, column: (before.at(-1) as string).length + 1 };
    throw new CliError(
      EXIT.usage,
      `${file}:${place.line}:${place.column}: not YAML: ${error.message}`,
      codeFrame(text, place),
      { cause: error },
    );
  }
  try {
    // YAML aliases are expanded only up to a bound, because a few lines of YAML can stand for gigabytes.
    return document.toJS({ maxAliasCount: 100 }) as unknown;
  } catch (cause) {
    throw new CliError(EXIT.usage, `${file}: ${(cause as Error).message}`, [], { cause });
  }
}

function usesOf(phase: PhasePlan): string[] {
  const handlers: HandlerPlan[] = [...phase.handlers, ...(phase.decision === null ? [] : [phase.decision])];
  return handlers
    .flatMap(({ use, enumerateUse }) => [use, enumerateUse ?? ""])
    .filter((use) => use !== "" && use !== SCRIPT_USE && topicOf(use) === null);
}

function asVariable(name: string): string {
  return name.replaceAll(/-(\w?)/g, (_, letter: string) => letter.toUpperCase());
}
