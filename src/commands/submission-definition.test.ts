import { expect, test } from "vitest";
import { isRejection, reject } from "../std/rejection.ts";
import type { SubmittedWorkflow } from "./parse-submission.ts";
import { inDocument, isSubmissionName, submissionDefinition } from "./submission-definition.ts";

function definitionOf(...steps: SubmittedWorkflow["steps"]) {
  const made = submissionDefinition({ id: null, path: "", steps });
  if (isRejection(made)) throw new Error(made.message);
  return made;
}

test("each step is a phase with one command, and the name is of the commands alone", () => {
  const command = { cmd_type: "A", cmd_metadata: { rondo: "x", cmd_hash: "y", user: "jo" } };
  const { definition, workflowHash } = definitionOf(
    { command, topic: "A_CMD", options: { timeout: "5m" } },
    { command: { cmd_type: "B", cmd_data: {} }, topic: "B", options: {} },
  );
  expect(definition).toEqual({
    rondo: 1,
    name: `commands-${workflowHash.slice(0, 16)}`,
    phases: [
      {
        name: "step-0",
        handlers: {
          "step-0": {
            command: { cmd_type: "A", cmd_metadata: { user: "jo" } },
            topic: "A_CMD",
            timeout: 300_000,
          },
        },
      },
      { name: "step-1", handlers: { "step-1": { command: { cmd_type: "B" }, topic: "B" } } },
    ],
  });
  expect(isSubmissionName(definition.name)).toBe(true);
  expect(["commands", "commands-daily", "commands-0123456789abcdef0"].some(isSubmissionName)).toBe(false);
});

test("a receipt topic that the rule gives anyway makes no other workflow", () => {
  const step = { command: { cmd_type: "A" }, topic: "LEXI_CMD_EMBED" };
  const plain = definitionOf({ ...step, options: {} });
  expect(definitionOf({ ...step, options: { receiptTopic: "LEXI_RECEIPT_EMBED" } })).toEqual(plain);
  expect(definitionOf({ ...step, options: { receiptTopic: "ELSEWHERE" } })).not.toEqual(plain);
});

test("refusals of definitions are told by the place in the document", () => {
  const cases = [
    ["", 'phase "step-3" handler "step-3".topic', "steps[3].proc.target_topic_name"],
    [
      "p.workflows[1]",
      'phase "step-0" handler "step-0".command.cmd_type',
      "p.workflows[1].steps[0].cmd.cmd_type",
    ],
    ["", 'phase "step-0" handler "step-0"', "steps[0]"],
  ] as const;
  for (const [at, path, told] of cases)
    expect(inDocument(reject("invalid_definition", `${path}: is wrong`, { path, hint: "h" }), at)).toEqual(
      reject("invalid_input", `${told}: is wrong`, { path: told, hint: "h" }),
    );
  // A refusal that is caused by the server's settings.
  const path = "cmd_metadata.cmd_post_op";
  expect(inDocument(reject("invalid_definition", "step-12.step-12: no such store", { path }), "")).toEqual(
    reject("invalid_input", `steps[12].cmd.${path}: no such store`, { path: `steps[12].cmd.${path}` }),
  );
});
