/** Executions on the wire. */
import { z } from "@hono/zod-openapi";
import { anyJson, executionId, name, time } from "./paging.ts";

export const EXECUTION_STATUSES = [
  "running",
  "paused",
  "cancelling",
  "done",
  "failed",
  "cancelled",
  "damaged",
] as const;

const status = z.enum(EXECUTION_STATUSES);
const count = z.number().int().nonnegative();
const tags = z.record(z.string(), z.string()).openapi({ example: { team: "ops" } });

const errorSchema = z
  .object({
    code: z.string(),
    message: z.string(),
    phase: z.string().optional(),
    handler: z.string().optional(),
    task: z.number().int().optional(),
    attempt: z.number().int().optional(),
  })
  .openapi("ExecutionError", {
    example: {
      code: "task_failed",
      message: "no such key",
      phase: "resize",
      handler: "resize",
      task: 17,
      attempt: 3,
    },
  });

const handlerSchema = z
  .object({
    name: z.string(),
    total: count,
    sealed: z.boolean().openapi({ description: "its enumeration is complete" }),
    pending: count,
    running: count,
    retrying: count,
    waiting: count,
    done: count,
    failed: count,
    cancelled: count,
  })
  .openapi("HandlerView");

const phaseSchema = z
  .object({
    name: z.string(),
    visit: count.openapi({ description: "0: not visited yet" }),
    status: z.enum(["pending", "running", "done", "failed", "cancelled", "skipped"]),
    handlers: z.array(handlerSchema),
  })
  .openapi("PhaseView");

const parentSchema = z
  .object({
    execution: z.string(),
    phase: z.string(),
    visit: count,
    handler: z.string(),
    task: count,
    depth: count,
  })
  .openapi("Parent");

/** An execution with its phases. */
export const executionSchema = z
  .object({
    id: executionId,
    workflow: z.string(),
    workflowHash: z.string(),
    project: z.string(),
    status,
    damage: z
      .object({ table: z.string(), row: z.union([z.number().int(), z.string()]), why: z.string() })
      .optional()
      .openapi({
        description:
          "of a damaged execution: the stored row that cannot be read; the rest is of what is before it",
      }),
    phase: z.string().nullable(),
    input: anyJson,
    output: anyJson,
    error: errorSchema.nullable(),
    phases: z.array(phaseSchema),
    tags,
    parent: parentSchema.nullable().openapi({ description: "where it belongs, if it is a child" }),
    createdAt: time,
    finishedAt: time.nullable(),
    revision: count.openapi({ description: "sequence number of its last event" }),
  })
  .openapi("Execution", {
    example: {
      id: "nightly-2026-11-15",
      workflow: "thumbnails",
      workflowHash: "9f2c1b7c0e6d",
      project: "default",
      status: "running",
      phase: "resize",
      input: { bucket: "b" },
      output: null,
      error: null,
      phases: [],
      tags: {},
      parent: null,
      createdAt: 1_794_700_800_000,
      finishedAt: null,
      revision: 12,
    },
  });

/** An execution in a list. */
export const summarySchema = z
  .object({
    id: executionId,
    workflow: z.string(),
    workflowHash: z.string(),
    project: z.string(),
    status,
    phase: z.string().nullable(),
    error: z.string().nullable(),
    tags,
    createdAt: time,
    finishedAt: time.nullable(),
  })
  .openapi("ExecutionSummary");

const moment = z
  .union([z.number().int().nonnegative(), z.iso.datetime({ offset: true })], {
    error: "must be milliseconds since 1970, or a time such as 2026-11-15T06:00:00Z",
  })
  .openapi({ example: "2026-11-15T06:00:00Z" });

/** The body of a start. */
export const startSchema = z
  .strictObject({
    workflow: name,
    input: anyJson.optional(),
    id: z.string().optional().openapi({ description: "made up if left out", example: "nightly-2026-11-15" }),
    project: z.string().optional().openapi({ description: "`default` if left out" }),
    // Checked by what starts them: a record here would drop names that it does not like.
    tags: z
      .unknown()
      .optional()
      .openapi({ type: "object", additionalProperties: { type: "string" }, example: { team: "ops" } }),
    startAt: moment.optional().openapi({ description: "not before this time" }),
    deadline: moment.optional().openapi({ description: "then it is cancelled, with the reason `deadline`" }),
  })
  .openapi("Start", {
    example: { workflow: "thumbnails", input: { bucket: "b" }, id: "nightly-2026-11-15" },
  });

/** The body of cancel, pause, resume and retry. */
export const controlSchema = z
  .strictObject({
    reason: z.string().optional().openapi({ example: "maintenance" }),
    by: z.string().optional().openapi({ description: "who asks; the name of the token if left out" }),
    id: z.string().optional().openapi({ description: "makes repeating it harmless, like Idempotency-Key" }),
  })
  .openapi("Control");

/** The body of a signal. */
export const signalSchema = z
  .strictObject({
    name: z.string().openapi({ example: "approved" }),
    data: anyJson.optional(),
    id: z.string().optional().openapi({ description: "makes repeating it harmless, like Idempotency-Key" }),
  })
  .openapi("Signal", { example: { name: "approved", data: { by: "jo" } } });
