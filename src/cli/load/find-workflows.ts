/** Finds the workflows and topics that a module exports, by the shape of the values. Chooses the workflow that the user wants. */
import { referenceTo } from "../../sdk/check.ts";
import type { AnyWorkflow } from "../../sdk/workflow.ts";
import type { HostedTopic } from "../../worker/handler-code.ts";
import { CliError } from "../cli-error.ts";
import { EXIT } from "../exit-code.ts";
import type { ModuleExports } from "./load-module.ts";

/** The workflows and topics of a file. */
export interface FileParts {
  readonly workflows: readonly AnyWorkflow[];
  readonly topics: readonly HostedTopic[];
}

/** Finds all workflows and topics among a module's exports, each once. Throws if there are none, or if two have the same name. */
export function findParts(exports: ModuleExports, file: string): FileParts {
  const workflows = new Map<string, AnyWorkflow>();
  const topics = new Map<string, HostedTopic>();
  for (const value of Object.values(exports)) {
    if (isTopic(value)) {
      if ((topics.get(value.topic) ?? value) !== value)
        throw new CliError(EXIT.usage, `${file} exports two topics named "${value.topic}"`, [
          "one function serves a topic: combine the two functions, or export only one",
        ]);
      topics.set(value.topic, value);
    }
    if (!isWorkflow(value)) continue;
    const reference = referenceTo(value);
    if ((workflows.get(reference) ?? value) !== value)
      throw new CliError(EXIT.usage, `${file} exports two workflows named "${reference}"`, [
        "a name belongs to one workflow: rename one, give one another version, or export only the finished one",
      ]);
    workflows.set(reference, value);
  }
  if (workflows.size + topics.size > 0)
    return { workflows: [...workflows.values()], topics: [...topics.values()] };
  const others = Object.entries(exports).map(([name, value]) => `${name} (${kindOf(value)})`);
  throw new CliError(
    EXIT.usage,
    `${file} exports no workflow; it exports ${others.length === 0 ? "nothing" : others.join(", ")}`,
    [
      "export the result of workflow():",
      `  import { workflow } from "rondo";`,
      `  export const hello = workflow({ name: "hello" }).phase("greet", { process: () => "hello" });`,
    ],
  );
}

/** Returns the workflow with the wanted name. Without a name, returns the only workflow. */
export function chooseWorkflow(
  workflows: readonly AnyWorkflow[],
  name: string | undefined,
  file: string,
): AnyWorkflow {
  const names = workflows.map(referenceTo).join(", ");
  if (workflows.length === 0)
    throw new CliError(EXIT.usage, `${file} exports topics, but no workflow that could be run`, [
      "to serve the topics: rondo worker FILE, or rondo dev FILE",
    ]);
  if (name === undefined) {
    const [only] = workflows;
    if (workflows.length === 1 && only !== undefined) return only;
    throw new CliError(EXIT.usage, `${file} exports ${workflows.length} workflows: ${names}`, [
      `choose one: --workflow ${workflows[0] === undefined ? "" : referenceTo(workflows[0])}`,
    ]);
  }
  const chosen =
    workflows.find((workflow) => referenceTo(workflow) === name) ??
    workflows.findLast((workflow) => workflow.name === name);
  if (chosen !== undefined) return chosen;
  throw new CliError(EXIT.notFound, `${file} exports no workflow named "${name}"`, [`it exports: ${names}`]);
}

function isTopic(value: unknown): value is HostedTopic {
  if (typeof value !== "object" || value === null) return false;
  const { topic, handlers } = value as Record<string, unknown>;
  return typeof topic === "string" && Array.isArray(handlers);
}

function isWorkflow(value: unknown): value is AnyWorkflow {
  if (typeof value !== "object" || value === null) return false;
  const { name, definition, handlers } = value as Record<string, unknown>;
  return (
    typeof name === "string" &&
    typeof definition === "object" &&
    definition !== null &&
    Array.isArray(handlers)
  );
}

function kindOf(value: unknown): string {
  if (value === null) return "null";
  if (Array.isArray(value)) return "an array";
  return typeof value === "undefined"
    ? "undefined"
    : `${typeof value === "object" ? "an" : "a"} ${typeof value}`;
}
