/**
 * Converts a submission to a definition: one phase per step (`step-0`, `step-1`, ...), each with one command handler of the
 * same name. The workflow's name contains the hash of its commands, so that the executions can be found by that hash.
 */
import { commandHashes } from "../kernel/command/command-plan.ts";
import { receiptTopicOf } from "../kernel/command/topic-rules.ts";
import type { Definition } from "../kernel/definition/definition.ts";
import { parseDefinition } from "../kernel/definition/parse-definition.ts";
import { isRejection, type Rejection, reject } from "../std/rejection.ts";
import type { SubmittedWorkflow } from "./parse-submission.ts";

/** The tag of submitted executions. Its value is the hash of their commands. */
export const COMMANDS_TAG = "rondo.commands";

const NAME_DIGITS = 16;
const SUBMISSION_NAME = /^commands-[\da-f]{16}$/;

/**
 * Returns the name of submitted workflows whose commands have this hash. The name has only the first part of the hash, so different
 * commands may share a name.
 */
export function submissionName(workflowHash: string): string {
  return `commands-${workflowHash.slice(0, NAME_DIGITS)}`;
}

/** The range of the names of all submitted workflows. Their definitions are deleted after their last executions. */
export const SUBMISSION_NAMES = { prefix: "commands-", isOne: isSubmissionName } as const;

export function isSubmissionName(name: string): boolean {
  return SUBMISSION_NAME.test(name);
}

/** Makes the definition, with the hash of its commands. Returns a rejection with the path in the submission if a command is wrong. */
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
