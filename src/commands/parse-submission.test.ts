import { describe, expect, test } from "vitest";
import { isRejection } from "../std/rejection.ts";
import { parseSubmission, type Submission } from "./parse-submission.ts";

const step = { cmd: { cmd_type: "A" }, proc: { target_topic_name: "A_CMD" } };

/** The example of seed 003, as it is read. */
const read = {
  "project-x": {
    workflows: [
      {
        workflow_hash: "3f2912a8",
        steps: [
          {
            cmd: {
              cmd_type: "EMBED_REPO",
              cmd_data: {},
              cmd_metadata: { repo_name: "Lxi", workflow_hash: "3f2912a8", cmd_hash: "791f5a86" },
              cmd_result: { left: "out" },
            },
            proc: {
              target_topic_name: "LEXI_CMD_EMBED",
              proc_status: "PENDING",
              proc_err: null,
              utc_created_timestamp: "2021-09-29T09:00:00.000Z",
            },
          },
        ],
      },
    ],
  },
};

function accepted(body: unknown, project = "project-x"): Submission {
  const parsed = parseSubmission(body, project);
  if (isRejection(parsed)) throw new Error(parsed.message);
  return parsed;
}

describe("a submission", () => {
  test("is one workflow of steps", () => {
    expect(accepted({ steps: [step, step], workflow_id: "w-1", workflow_hash: "ignored" })).toEqual({
      isDocument: false,
      workflows: [
        {
          id: "w-1",
          path: "",
          steps: [
            { command: { cmd_type: "A" }, topic: "A_CMD", options: {} },
            { command: { cmd_type: "A" }, topic: "A_CMD", options: {} },
          ],
        },
      ],
    });
    expect(accepted({ steps: [step] }).workflows[0]?.id).toBeNull();
  });

  test("is a whole document as it was read, what is only read left aside", () => {
    const { isDocument, workflows } = accepted({ ...read, next: null });
    expect(isDocument).toBe(true);
    expect(workflows).toMatchObject([{ id: null, path: "project-x.workflows[0]" }]);
    expect(workflows[0]?.steps[0]?.command).toEqual({
      cmd_type: "EMBED_REPO",
      cmd_data: {},
      cmd_metadata: { repo_name: "Lxi", workflow_hash: "3f2912a8", cmd_hash: "791f5a86" },
    });
  });

  test("has workflows by id where they are a map", () => {
    const { workflows } = accepted(
      {
        p: { workflows: { one: { steps: [step] }, two: { workflow_id: "two", steps: [step] } } },
      },
      "p",
    );
    expect(workflows.map(({ id, path }) => [id, path])).toEqual([
      ["one", "p.workflows.one"],
      ["two", "p.workflows.two"],
    ]);
  });

  test("says how a command is tried, and where its receipt comes back", () => {
    const proc = {
      target_topic_name: "A_CMD",
      receipt_topic_name: "BACK",
      retry: { attempts: 2 },
      timeout: "5m",
    };
    expect(accepted({ steps: [{ ...step, proc }] }).workflows[0]?.steps[0]?.options).toEqual({
      receiptTopic: "BACK",
      retry: { attempts: 2 },
      timeout: "5m",
    });
    // A document that was read from the server has null for a topic that was not given.
    const none = { ...step, proc: { ...step.proc, receipt_topic_name: null } };
    expect(accepted({ steps: [none] }).workflows[0]?.steps[0]?.options).toEqual({});
  });
});

describe("refused, with its path, is", () => {
  const steps = (...given: unknown[]) => ({ steps: given });
  const deep = (levels: number): unknown => (levels === 0 ? 1 : [deep(levels - 1)]);
  const cases: [what: string, body: unknown, code: string, path: string | undefined, message: string][] = [
    ["a list", [], "invalid_input", undefined, "the body: [] is not an object"],
    ["nothing", {}, "invalid_input", undefined, "the body: the submission has neither steps nor a project"],
    ["no step", steps(), "invalid_input", "steps", "steps: it has 0 entries; at least 1 is needed"],
    ["a step that is none", steps(1), "invalid_input", "steps[0]", "steps[0]: 1 is not an object"],
    [
      "a step without a command",
      steps({ proc: step.proc }),
      "invalid_input",
      "steps[0].cmd",
      "steps[0].cmd: nothing is not an object",
    ],
    [
      "a step without a proc",
      steps({ cmd: step.cmd }),
      "invalid_input",
      "steps[0].proc",
      "steps[0].proc: nothing is not an object",
    ],
    [
      "a step without a topic",
      steps({ cmd: step.cmd, proc: {} }),
      "invalid_input",
      "steps[0].proc.target_topic_name",
      "steps[0].proc.target_topic_name: nothing is not the name of a topic",
    ],
    [
      "a field that nobody knows",
      steps(step, { ...step, cmd: { cmd_type: "A", cmd_dta: {} } }),
      "unknown_field",
      "steps[1].cmd.cmd_dta",
      "steps[1].cmd.cmd_dta: there is no such field",
    ],
    [
      "such a one beside the steps",
      { ...steps(step), id: "x" },
      "unknown_field",
      "id",
      "id: there is no such field",
    ],
    [
      "such a one instead of a project",
      { step: [step] },
      "unknown_field",
      "step",
      "step: there is no such field",
    ],
    [
      "another project",
      { other: { workflows: [{ steps: [step] }] } },
      "invalid_input",
      "other",
      'other: is not the project "project-x" to which the document was submitted',
    ],
    [
      "a project without workflows",
      { "project-x": {} },
      "invalid_input",
      "project-x.workflows",
      "project-x.workflows: nothing is neither a list of workflows nor an object with workflows by id",
    ],
    [
      "an empty project",
      { "project-x": { workflows: {} } },
      "invalid_input",
      "project-x.workflows",
      "project-x.workflows: it has 0 entries",
    ],
    [
      "an id that is none",
      { ...steps(step), workflow_id: "a~b" },
      "invalid_input",
      "workflow_id",
      'workflow_id: "a~b" is not an execution id: it contains a ~, which only the engine\'s own ids have',
    ],
    [
      "an id that is not what it stands under",
      { "project-x": { workflows: { a: { workflow_id: "b", steps: [step] } } } },
      "invalid_input",
      "project-x.workflows.a.workflow_id",
      'project-x.workflows.a.workflow_id: "b" differs from "a", the key of this workflow',
    ],
    [
      "a command that is too large",
      steps({ ...step, cmd: { cmd_type: "A", cmd_data: "x".repeat(70_000) } }),
      "too_large",
      "steps[0].cmd",
      "steps[0].cmd: it is 70",
    ],
    [
      "one that is nested too deeply",
      steps({ ...step, cmd: { cmd_type: "A", cmd_data: deep(120) } }),
      "too_deep",
      undefined,
      "steps[0].cmd.cmd_data",
    ],
    [
      "too many steps",
      steps(...new Array(1_001).fill(step)),
      "invalid_input",
      "steps",
      "steps: it has 1001 entries",
    ],
    [
      "too many workflows",
      { "project-x": { workflows: new Array(1_001).fill({ steps: [step] }) } },
      "invalid_input",
      "project-x.workflows",
      "project-x.workflows: it has 1001 entries",
    ],
  ];
  test.each(cases)("%s", (_, body, ...[code, path, message]) => {
    const parsed = parseSubmission(body, "project-x");
    expect(parsed).toMatchObject({ kind: "rejection", code, ...(path === undefined ? {} : { path }) });
    expect((parsed as { message: string }).message.startsWith(message)).toBe(true);
  });

  test("what is sent to a project that cannot be told from a cursor", () => {
    expect(parseSubmission({ steps: [step] }, "next")).toMatchObject({
      code: "invalid_input",
      path: "project",
    });
  });
});
