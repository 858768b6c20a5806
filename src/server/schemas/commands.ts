/** Command workflows on the wire, in the shape of their documents. */
import { z } from "@hono/zod-openapi";
import { anyJson, executionId } from "./paging.ts";

const hash = z.string().openapi({
  description: "SHA-256 of the RFC 8785 form of the commands, as they were submitted",
  example: "e34997b0a1744a8f7429e7e25bcda24a914807659545ef336875de880246ce1b",
});
const utc = z.string().openapi({ example: "2026-11-15T09:00:00.000Z" });

const commandSchema = z
  .object({
    cmd_type: z.string(),
    cmd_data: anyJson,
    cmd_metadata: z
      .looseObject({ cmd_hash: z.string(), workflow_hash: z.string() })
      .describe("the metadata as submitted, with the hashes of the command and of its workflow"),
    cmd_result: anyJson.describe("the result of the receipt, with fields of Rondo; {} before the receipt"),
  })
  .openapi("Command");

const procSchema = z
  .object({
    target_topic_name: z.string(),
    receipt_topic_name: z.string(),
    retry: z.record(z.string(), z.unknown()).optional().describe("as it was submitted"),
    timeout: z.number().int().optional().describe("the time limit as it was submitted, in milliseconds"),
    proc_status: z.enum(["PENDING", "RUNNING", "COMPLETE", "ERROR", "CANCELLED"]),
    proc_err: anyJson.describe("the error if the status is ERROR; otherwise null"),
    utc_created_timestamp: utc,
    utc_started_timestamp: utc.nullable(),
    utc_receipted_timestamp: utc.nullable(),
    post_ops: z
      .array(
        z.object({
          op: z.enum(["persistence", "broadcast"]),
          index: z.number().int(),
          target: z.string(),
          attempts: z.number().int(),
          utc_next_timestamp: utc.nullable(),
          error: z.string().nullable(),
        }),
      )
      .optional()
      .describe("post-operations that are not done yet"),
    tasks: z
      .record(z.string(), z.number().int())
      .optional()
      .describe("the number of tasks by status, if the command is sent for each of several tasks"),
  })
  .openapi("Proc");

/** The schema of a command workflow that is read. */
export const workflowDocumentSchema = z
  .object({
    workflow_id: executionId,
    workflow_hash: hash,
    steps: z.array(z.object({ cmd: commandSchema, proc: procSchema })),
  })
  .openapi("CommandWorkflow");

/** The schema of the workflows of a project, under the project's name. */
export const projectDocumentSchema = z
  .looseObject({
    next: z
      .string()
      .nullable()
      .optional()
      .describe("in a list with pages: the cursor of the next page; null on the last page"),
  })
  .openapi("CommandProject", {
    description:
      "`{ [project]: { workflows: [CommandWorkflow] } }`. A page of a list also has the field `next`.",
    example: { "project-x": { workflows: [] }, next: null },
  });

/** The schema of a submission. It allows everything, because the parser of submissions checks the fields. */
export const submissionSchema = z.looseObject({}).openapi("CommandSubmission", {
  description:
    "`{ steps: [{ cmd, proc: { target_topic_name } }] }`, with an optional `workflow_id`; or a whole document `{ [project]: { workflows } }`, a list or a map by id. In `proc` can be `receipt_topic_name`, `retry` and `timeout`. Fields that are only read (hashes, `cmd_result`, `proc_status`, `proc_err`, times) are accepted and ignored.",
  example: {
    steps: [
      {
        cmd: { cmd_type: "EMBED_REPO", cmd_data: { repo: "Lxi" }, cmd_metadata: { user_id: "usr@lxi.com" } },
        proc: { target_topic_name: "LEXI_CMD_EMBED" },
      },
    ],
  },
});
