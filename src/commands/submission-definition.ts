/**
 * Converts a submission to a definition: one phase per step (`step-0`, `step-1`, ...), each with one command handler of the
 * same name. There are two forms:
 * 1. A shape: documents that differ only in their data and metadata share a definition, and their commands are in the input of
 *    the execution (kernel/command/own-command.ts). The name contains the hash of the shape.
 * 2. A definition of one document, with its whole commands. The name contains the hash of the commands. It is for documents
 *    with post-operations, references to the input, or much data, and for clusters with nodes that do not know shapes.
 * In both forms a tag of the execution has the hash of its commands.
 */
import { commandHashes } from "../kernel/command/command-plan.ts";
import { type GivenCommand, hashedCommands, type OwnCommand } from "../kernel/command/own-command.ts";
import { parseReferences } from "../kernel/command/reference.ts";
import { receiptTopicOf } from "../kernel/command/topic-rules.ts";
import { type Definition, FROM_INPUT } from "../kernel/definition/definition.ts";
import { parseDefinition } from "../kernel/definition/parse-definition.ts";
import { definitionHash } from "../kernel/definition/plan.ts";
import { isObject, Undecodable } from "../std/decode.ts";
import type { Json } from "../std/json.ts";
import { isRejection, type Rejection, reject } from "../std/rejection.ts";
import type { SubmittedStep, SubmittedWorkflow } from "./parse-submission.ts";

/** The tag of submitted executions. Its value is the hash of their commands. */
export const COMMANDS_TAG = "rondo.commands";

const NAME_DIGITS = 16;
const SUBMISSION_NAME = /^commands-(?:of-)?[\da-f]{16}$/;
/** The beginning of the names of shapes. */
export const SHAPE_PREFIX = "commands-of-";
/** The most characters of the input of a shape. A longer document has a definition of its own, whose parser checks its size. */
const GIVEN_CHARS_MAX = 20_000;

/**
 * Returns the name of submitted workflows whose commands have this hash. The name has only the first part of the hash, so different
 * commands may share a name.
 */
export function submissionName(workflowHash: string): string {
  return `commands-${workflowHash.slice(0, NAME_DIGITS)}`;
}

/** The range of the names of all submitted workflows. Their definitions are deleted after their last executions. */
export const SUBMISSION_NAMES = { prefix: "commands-", includes: isSubmissionName } as const;

export function isSubmissionName(name: string): boolean {
  return SUBMISSION_NAME.test(name);
}

/** Whether the name is that of a shape: its executions have their commands in their input. */
export function isShapeName(name: string): boolean {
  return name.startsWith(SHAPE_PREFIX) && isSubmissionName(name);
}

/** A document as an execution of a shape. */
export interface ShapedSubmission {
  /** A text that is equal for all documents of the shape. */
  readonly key: string;
  /** The references in the data of each step. */
  readonly references: readonly (readonly string[])[];
  /** The input of the execution, as JSON text. */
  readonly input: string;
  /** The commands of the document with their hashes. */
  readonly own: readonly OwnCommand[];
}

/** Splits a document into its shape and the input of its execution; null if it needs a definition of its own. */
export function shapedSubmission({ steps }: SubmittedWorkflow): ShapedSubmission | null {
  const given: GivenCommand[] = [];
  for (const { command } of steps) {
    const one = givenCommand(command);
    if (one === null || typeof command["cmd_type"] !== "string") return null;
    given.push(one);
  }
  const input = JSON.stringify({ steps: given });
  if (input.length > GIVEN_CHARS_MAX) return null;
  const references = input.includes("${") ? referencesOf(given) : given.map(() => []);
  if (references === null) return null;
  const key = JSON.stringify(
    steps.map(({ command, topic, options }, i) => [command["cmd_type"], topic, options, references[i]]),
  );
  const own = hashedCommands(
    steps.map(({ command }, i) => ({ cmd_type: command["cmd_type"] as string, ...given[i] })),
  );
  return { key, references, input, own };
}

/** The definition of a shape, made of the definition of one of its documents. */
export function shapeDefinition(
  { phases }: Definition,
  references: ShapedSubmission["references"],
): Definition {
  const shared = phases.map((phase, i) => ({
    ...phase,
    handlers: Object.fromEntries(
      Object.entries(phase.handlers).map(([name, handler]) => {
        const texts = references[i] ?? [];
        const cmd_type = handler.command?.cmd_type ?? "";
        const command = { cmd_type, ...(texts.length === 0 ? {} : { cmd_data: texts }) };
        return [name, { ...handler, command }];
      }),
    ),
  }));
  const shape: Definition = { rondo: 1, name: "commands", phases: shared, commands: FROM_INPUT };
  return { ...shape, name: `${SHAPE_PREFIX}${definitionHash(shape).slice(0, NAME_DIGITS)}` };
}

/** The part of a command that goes into the input, in the form in which a definition has it; null if it cannot. */
function givenCommand({ cmd_data, cmd_metadata }: SubmittedStep["command"]): GivenCommand | null {
  const fields = cmd_metadata ?? {};
  if (!isObject(fields)) return null;
  const { cmd_hash: _, workflow_hash: __, rondo: ___, ...metadata } = fields as Record<string, Json>;
  if (metadata["cmd_post_op"] !== undefined) return null;
  return {
    ...(cmd_data === undefined || isEmpty(cmd_data) ? {} : { cmd_data }),
    ...(isEmpty(metadata) ? {} : { cmd_metadata: metadata }),
  };
}

function isEmpty(value: Json): boolean {
  return isObject(value) && Object.keys(value).length === 0;
}

/** The references in the data of each step; null if there are others than to results of steps, or a text is not a reference. */
function referencesOf(given: readonly GivenCommand[]): string[][] | null {
  try {
    const found = given.map(({ cmd_data = {} }) => parseReferences(cmd_data, "cmd_data"));
    if (found.some((references) => references.some(({ from }) => from !== "steps"))) return null;
    return found.map((references) => references.map(({ text }) => `\${${text}}`).sort());
  } catch (error) {
    // The parser of definitions refuses the document, and says where.
    if (error instanceof Undecodable) return null;
    throw error;
  }
}

/** Makes the definition and the hash of its commands, or a rejection with the path in the submission. */
export function submissionDefinition(
  workflow: SubmittedWorkflow,
): { readonly definition: Definition; readonly workflowHash: string } | Rejection {
  const phases = workflow.steps.map(({ command, topic, options }, i) => {
    const name = `step-${i}`;
    const { receiptTopic, ...others } = options;
    // A document that was read from the API names the receipt topic. If it is submitted again, the result must be the same workflow.
    const isImplied = typeof topic === "string" && receiptTopic === receiptTopicOf(topic);
    const given = isImplied ? others : options;
    return { name, handlers: { [name]: { command, topic, ...given } } };
  });
  const parsed = parseDefinition({ rondo: 1, name: "commands", phases });
  if (isRejection(parsed)) return inDocument(parsed, workflow.path);
  const commands = parsed.phases.flatMap(({ handlers }) =>
    Object.values(handlers).flatMap(({ command }) => (command === undefined ? [] : [command])),
  );
  const { workflowHash } = commandHashes(commands);
  return { definition: { ...parsed, name: submissionName(workflowHash) }, workflowHash };
}

/** For each option of the handler, the name of the document's field. */
const FIELDS: Readonly<Record<string, string>> = {
  command: "cmd",
  topic: "proc.target_topic_name",
  receiptTopic: "proc.receipt_topic_name",
  retry: "proc.retry",
  timeout: "proc.timeout",
};

/** Changes the path and the message of a rejection, so that they refer to the submitted document instead of the definition. */
export function inDocument({ code, message, hint, path = "" }: Rejection, at: string): Rejection {
  const before = at === "" ? "" : `${at}.`;
  const renamed = (text: string): string =>
    text.replace(/^phase "step-(\d+)" handler "step-\1"(?:\.(\w+))?/, (_, step: string, option?: string) => {
      const field = option === undefined ? "" : `.${FIELDS[option] ?? option}`;
      return `${before}steps[${step}]${field}`;
    });
  // A rejection of the whole definition names the step in its message. Its path is relative to the step's command.
  const [prefix, step] = /^step-(\d+)\.step-\1: /.exec(message) ?? [];
  const place = step === undefined ? renamed(path) : `${before}steps[${step}].cmd.${path}`;
  const text = prefix === undefined ? renamed(message) : `${place}: ${message.slice(prefix.length)}`;
  return reject(code === "forbidden" ? code : "invalid_input", text, {
    path: place.slice(0, 200),
    ...(hint === undefined ? {} : { hint }),
  });
}
