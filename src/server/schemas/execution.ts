/** Executions on the wire. */
import { z } from "@hono/zod-openapi";
import { CODES } from "../../audit/auditor.ts";
import { WAITS } from "../../engine/views/why.ts";
import { EXECUTION_STATUSES } from "../../protocol/check-request.ts";
import { parseDuration } from "../../std/duration.ts";
import { isRejection } from "../../std/rejection.ts";
import { BAR_KINDS, BAR_STATES } from "../views/task-bars.ts";
import { TASK_STATES } from "../views/task-index.ts";
import { anyJson, executionId, name, time, workflowReference } from "./paging.ts";
import type { Shape } from "./shape.ts";

const status = z.enum(EXECUTION_STATUSES);
export type ExecutionStatus = (typeof EXECUTION_STATUSES)[number];
const count = z.number().int().nonnegative();
const tags = z.record(z.string(), z.string()).openapi({ example: { team: "ops" } });

const causeSchema = z
  .object({
    name: z.string(),
    message: z.string(),
    code: z.string().optional(),
    stack: z.string().optional(),
    get cause() {
      return causeSchema.optional();
    },
  })
  .openapi("ErrorCause");

const errorSchema = z
  .object({
    code: z.string(),
    message: z.string(),
    phase: z.string().optional(),
    handler: z.string().optional(),
    task: z.number().int().optional(),
    attempt: z.number().int().optional(),
    cause: causeSchema
      .optional()
      .openapi({ description: "the error of user code, with its stack and its causes" }),
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
    sealed: z.boolean().describe("whether the enumeration is complete"),
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
    visit: count.describe("the number of the visit; 0: not visited yet"),
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
    workflowVersion: z.string().optional().describe("the workflow's version; missing if it has none"),
    project: z.string(),
    status,
    damage: z
      .object({ table: z.string(), row: z.union([z.number().int(), z.string()]), why: z.string() })
      .optional()
      .describe(
        "for a damaged execution: the stored row that cannot be read; all other fields show the state before it",
      ),
    phase: z.string().nullable(),
    input: anyJson,
    output: anyJson,
    error: errorSchema.nullable(),
    ending: z
      .object({ status: z.enum(["done", "failed", "cancelled"]), error: errorSchema.nullable() })
      .optional()
      .describe("how the execution ends after its clean-up; only present during the clean-up"),
    continuedAs: z
      .string()
      .optional()
      .meta({ description: "the execution that continues this one; only present if there is one" }),
    continues: z
      .string()
      .optional()
      .meta({ description: "the execution that continued as this one; only present if there is one" }),
    cleanedUp: z
      .literal(true)
      .optional()
      .describe(
        "the execution failed or was cancelled, and has cleaned up after itself: it cannot be retried",
      ),
    unread: z
      .array(
        z.object({
          signal: z.string(),
          count,
          update: z.literal(true).optional().describe("true: these are updates that have no answer yet"),
        }),
      )
      .optional()
      .describe(
        "signals that the execution keeps and no wait has taken, and updates without an answer, at most 100 names",
      ),
    published: z
      .record(z.string(), anyJson)
      .optional()
      .describe("values that the code has published, by key; missing if there are none"),
    phases: z.array(phaseSchema),
    tags,
    parent: parentSchema
      .nullable()
      .describe("the execution, phase and task that started it, if it is a child"),
    createdAt: time,
    finishedAt: time.nullable(),
    revision: count.describe("the sequence number of the execution's last event"),
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
export type Execution = Shape<typeof executionSchema>;

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
export type Summary = Shape<typeof summarySchema>;

const waits = z.enum(WAITS).nullable().openapi({
  description:
    "what an execution that has not ended does or waits for; null if it has ended or is paused, or if its node does not report it",
});

export type { Waits } from "../../engine/views/why.ts";

export const whySchema = z.object({
  id: z.string(),
  status: z.string(),
  why: z.string(),
  waits,
  signals: z
    .array(z.string())
    .openapi({ description: "the names of the signals that the execution waits for, at most 50" }),
});
export type Why = Shape<typeof whySchema>;

const moment = z
  .union([z.number().int().nonnegative(), z.iso.datetime({ offset: true })], {
    error: "must be milliseconds since 1970, or a time such as 2026-11-15T06:00:00Z",
  })
  .openapi({ example: "2026-11-15T06:00:00Z" });

/** The body of a request that starts an execution. */
export const startSchema = z
  .strictObject({
    workflow: workflowReference,
    input: anyJson.optional(),
    id: z
      .string()
      .optional()
      .openapi({ description: "generated if left out", example: "nightly-2026-11-15" }),
    project: z.string().optional().describe("`default` if left out"),
    // The engine checks tags. A record schema here would drop names such as `__proto__` silently.
    tags: z
      .unknown()
      .optional()
      .openapi({ type: "object", additionalProperties: { type: "string" }, example: { team: "ops" } }),
    startAt: moment.optional().describe("the earliest time of the first task"),
    deadline: moment
      .optional()
      .describe("at this time the execution is cancelled, with the reason `deadline`"),
    ifExists: z
      .enum(["return", "fail", "startNewWhenDone"])
      .optional()
      .describe(
        "if an execution with this id exists: `return` (the default) answers with it if the start is equal, `fail` refuses, `startNewWhenDone` starts a new one if it has ended, with the id `ID~2`, `ID~3`, ...",
      ),
  })
  .openapi("Start", {
    example: { workflow: "thumbnails", input: { bucket: "b" }, id: "nightly-2026-11-15" },
  });

/** The result of an execution that has ended. */
export const resultSchema = z
  .union([
    z.object({ status: z.literal("done"), output: anyJson }),
    z.object({ status: z.enum(["failed", "cancelled", "damaged"]), error: errorSchema.nullable() }),
  ])
  .openapi("Result", { example: { status: "done", output: { files: 17 } } });
export type Result = Shape<typeof resultSchema>;

/** The longest wait of a request. */
export const WAIT_MAX_MS = 60_000;

/** How long a request waits for the end of an execution, in milliseconds. */
export function wait(description: string) {
  return z
    .string()
    .max(20)
    .transform((text, context) => {
      const ms = parseDuration(/^\d+$/.test(text) ? Number(text) : text, "wait");
      if (!isRejection(ms) && ms <= WAIT_MAX_MS) return ms;
      context.addIssue({ code: "custom", message: `must be a duration of at most 60s, such as 30s` });
      return z.NEVER;
    })
    .optional()
    .openapi({ type: "string", description, example: "30s", param: { description } });
}

/** The most executions that one request starts. */
export const STARTS_MAX = 1_000;

/** The body of a request that starts many executions. */
export const startManySchema = z
  .strictObject({
    workflow: workflowReference,
    project: z.string().optional().describe("`default` if left out"),
    starts: z
      .array(startSchema.omit({ workflow: true, project: true }).openapi("StartItem"))
      .min(1)
      .max(STARTS_MAX),
  })
  .openapi("StartMany", {
    example: {
      workflow: "thumbnails",
      starts: [{ input: { bucket: "a" }, id: "nightly-a" }, { input: { bucket: "b" } }],
    },
  });

/** The answer to a request that starts many executions. */
export const startManyAnswer = z
  .object({
    data: z.array(
      z
        .union([
          z.object({
            id: executionId,
            existed: z.boolean().describe("whether an equal start with this id came before"),
          }),
          z.object({
            error: z.object({
              code: z.string(),
              message: z.string(),
              hint: z.string().optional(),
              path: z.string().optional(),
            }),
          }),
        ])
        .openapi("StartOutcome"),
    ),
  })
  .openapi("StartManyAnswer", {
    example: {
      data: [
        { id: "nightly-a", existed: false },
        { error: { code: "invalid_input", message: "input.bucket: is missing", path: "input.bucket" } },
      ],
    },
  });
export type StartManyAnswer = Shape<typeof startManyAnswer>;

/** The body of cancel, pause, resume and retry. */
export const controlSchema = z
  .strictObject({
    reason: z.string().optional().openapi({ example: "maintenance" }),
    by: z.string().optional().describe("who asks for the change; by default the name of the token"),
    id: z
      .string()
      .optional()
      .describe("an id for the request, like an Idempotency-Key: a repeat with the same id changes nothing"),
  })
  .openapi("Control");

/** The body of cancel. */
export const cancelSchema = controlSchema
  .extend({
    force: z.boolean().optional().describe("skip the rest of a clean-up that is under way"),
  })
  .openapi("Cancel");

/** The definition that executions are moved to. */
const moveTarget = {
  version: z.string().optional().openapi({ description: "a version of the workflow", example: "2.0.0" }),
  hash: z.string().optional().describe("instead of `version`: the hash of a definition"),
};

/** The body of a move to another definition. */
export const moveSchema = z
  .strictObject({
    ...controlSchema.shape,
    ...moveTarget,
    dryRun: z.boolean().optional().describe("only check the move"),
  })
  .openapi("Move", { example: { version: "2.0.0" } });

/** The body of a retry of chosen tasks. */
export const retryTasksSchema = controlSchema
  .omit({ reason: true })
  .extend({
    phase: z
      .string()
      .optional()
      .openapi({ description: "the phase of the tasks; optional with `error`", example: "charge" }),
    visit: z.number().int().optional().describe("the visit of the phase; by default the last one"),
    handler: z.string().optional().describe("the handler; by default the one with the name of the phase"),
    numbers: z
      .array(z.number().int())
      .max(100_000)
      .optional()
      .openapi({
        description: "numbers of tasks; by default all failed tasks of the handler",
        example: [3, 17],
      }),
    error: z
      .string()
      .optional()
      .describe("instead of `numbers`: the name of the error, or the id of a group of dead letters"),
    dryRun: z.boolean().optional().describe("only count the tasks"),
  })
  .openapi("RetryTasks", { example: { phase: "charge", numbers: [3, 17] } });

/** The answer to a retry of chosen tasks. */
export const retriedTasksSchema = z
  .object({
    tasks: count.describe("how many tasks run again"),
    skipped: z
      .array(z.string())
      .describe("the phases after that of the tasks, which do not run again; only `returns` runs again"),
  })
  .openapi("RetriedTasks");
export type RetriedTasks = Shape<typeof retriedTasksSchema>;

/** The body of a signal. */
export const signalSchema = z
  .strictObject({
    name: z.string().openapi({ example: "approved" }),
    data: anyJson.optional(),
    id: z
      .string()
      .optional()
      .describe("an id for the request, like an Idempotency-Key: a repeat with the same id changes nothing"),
    start: startSchema
      .omit({ id: true })
      .extend({
        ifExists: z
          .enum(["signal", "startNewWhenDone", "new"])
          .optional()
          .describe(
            "if the execution has ended: `signal` refuses the signal as `gone`, `startNewWhenDone` (or `new`, its former name) starts a new execution, with the id `ID~2`, `ID~3`, ...",
          ),
      })
      .optional()
      .describe("if there is no execution with this id, start it with the signal, in one commit"),
  })
  .openapi("Signal", { example: { name: "approved", data: { by: "jo" } } });

/** The answer to a signal. */
export const signalledSchema = z
  .object({
    execution: executionId,
    signal: z.string(),
    state: z
      .enum(["delivered", "kept"])
      .describe("`delivered`: a wait has taken the signal; `kept`: the signal is stored for a later wait"),
  })
  .openapi("Signalled");
export type Signalled = Shape<typeof signalledSchema>;

/** The answer to a signal with `start`. */
export const signalledStartSchema = signalledSchema
  .extend({
    started: z.boolean().describe("whether the execution was started with the signal"),
  })
  .openapi("SignalledStart");
export type SignalledStart = Shape<typeof signalledStartSchema>;

export const droppedSchema = z
  .object({
    at: z.number(),
    what: z.string(),
    verdict: z.string(),
    phase: z.string(),
    visit: z.number().int(),
    handler: z.string(),
    task: z.number().int(),
    attempt: z.number().int(),
    worker: z.string(),
  })
  .openapi("Dropped");
export type Dropped = Shape<typeof droppedSchema>;

export const eventSchema = z
  .looseObject({
    seq: z.number().int(),
    at: z.number().int(),
    kind: z.string().openapi({ example: "workflow.tasks.settled" }),
    v: z.number().int(),
    execution: z.string(),
  })
  .openapi("Event", {
    example: {
      seq: 3,
      at: 1_794_700_800_000,
      kind: "workflow.handler.started",
      v: 1,
      execution: "nightly-2026-11-15",
      phase: "resize",
      visit: 1,
      handler: "resize",
    },
  });
export type Event = Shape<typeof eventSchema>;

export const lineSchema = z
  .object({
    id: z.string(),
    at: z.number().int(),
    level: z
      .string()
      .describe("debug, info, warn, error, progress; `run`: the start and end of a script's runs"),
    text: z.string(),
    fields: z
      .record(z.string(), anyJson)
      .optional()
      .describe("the fields of the first value, if that was an object, as in `log.info({ order: 7 }, text)`"),
    run: z.string().optional(),
    phase: z.string(),
    visit: z.number().int(),
    handler: z.string(),
    task: z.number().int().describe("-1: the enumeration"),
    attempt: z.number().int(),
    attemptId: z.string().describe("the attempt's id, which no other attempt of the store has"),
    worker: z.string(),
  })
  .openapi("LogLine");
export type LogLine = Shape<typeof lineSchema>;

export const rowSchema = z
  .object({
    n: z.number().int(),
    status: z.enum(TASK_STATES),
    attempts: z.number().int(),
    reason: z.string().nullable(),
    worker: z.string().nullable(),
    child: z.string().optional().openapi({ description: "the id of the child that the task runs" }),
    ms: z.number().nullable(),
    result: anyJson.optional(),
    error: anyJson.optional(),
    key: z.string().optional(),
    identity: z.string().optional(),
    after: z.array(z.string()).readonly().optional().meta({
      description: "the identities of the tasks that must be done before this task begins",
    }),
    addedBy: z.number().optional().meta({ description: "the number of the task that added this task" }),
    task: anyJson.optional(),
  })
  .openapi("TaskRow", {
    example: {
      n: 17,
      status: "done",
      attempts: 1,
      reason: null,
      worker: "w-1",
      ms: 12,
      result: { bytes: 1 },
    },
  });
export type TaskRow = Shape<typeof rowSchema>;

/** A task with its history. */
export const taskHistorySchema = z
  .object({
    phase: z.string(),
    visit: z.number().int(),
    handler: z.string(),
    task: rowSchema,
    events: z
      .array(
        z.looseObject({
          seq: z.number().int(),
          at: time,
          kind: z.string().openapi({ example: "workflow.tasks.retrying" }),
          attempt: z.number().int().optional(),
        }),
      )
      .openapi({ description: "the events of the task, in order: the newest 200" }),
    more: count.openapi({ description: "how many earlier events are left out" }),
    isKept: z
      .boolean()
      .openapi({ description: "false: the task has no history, because its handler has too many events" }),
    revision: count,
  })
  .openapi("TaskHistory");
export type TaskHistory = Shape<typeof taskHistorySchema>;

export const laneSchema = z
  .object({
    phase: z.string(),
    visit: z.number().int(),
    handler: z.string(),
    startedAt: time,
    endedAt: time.nullable(),
    total: z.number().int(),
    ran: z.array(z.number()).describe("the average number of running tasks in each interval"),
    done: z.array(z.number().int()),
    failed: z.array(z.number().int()),
    bars: z
      .array(
        z
          .object({
            task: z.number().int(),
            kind: z
              .enum(BAR_KINDS)
              .describe(
                "`retry`: the back-off after an attempt; `step` and `run`: parts of an attempt; a step begins where the one before it ended, since the journal has only the ends of steps",
              ),
            name: z.string().optional().describe("the name of a step, a run or a wait; the id of a child"),
            attempt: z.number().int(),
            state: z.enum(BAR_STATES),
            from: z.number(),
            to: z.number().nullable().describe("when the bar ended; null if it has not ended yet"),
            due: z.number().optional().describe("when a sleep or a back-off ends"),
          })
          .openapi("Bar"),
      )
      .readonly()
      .nullable()
      .describe("bars of attempts, steps, waits and children in the window; null if they are too many"),
  })
  .openapi("Lane");
export type Lane = Shape<typeof laneSchema>;

export const lanesSchema = z.object({
  from: time,
  to: time,
  revision: z.number().int(),
  lanes: z.array(laneSchema),
});
export type Lanes = Shape<typeof lanesSchema>;

export const auditSchema = z
  .object({
    execution: z.string(),
    events: z.number().int(),
    tasks: z.number().int(),
    settled: z.number().int(),
    lost: z.number().int(),
    countedTwice: z.number().int(),
    findings: z.array(
      z.object({
        code: z.enum(CODES),
        seq: z.number().int(),
        message: z.string(),
        isRepaired: z.boolean().optional(),
      }),
    ),
    more: z.number().int(),
  })
  .openapi("Audit");
export type ExecutionAudit = Shape<typeof auditSchema>;

export const tableSchema = z
  .object({
    findings: z.array(z.object({ table: z.string(), message: z.string(), isRepaired: z.boolean() })),
  })
  .openapi("TableAudit");
export type TableAudit = Shape<typeof tableSchema>;

/** The changes that a bulk request can make. */
export const ACTIONS = ["cancel", "pause", "resume", "retry"] as const;
/** The most executions that one bulk request changes. */
const BULK_MAX = 1_000;

export const bulkSchema = z
  .strictObject({
    action: z.enum([...ACTIONS, "move"]),
    ...moveTarget,
    filter: z.strictObject({
      project: name.optional(),
      workflow: name.optional(),
      status: z
        .union([z.enum(EXECUTION_STATUSES), z.array(z.enum(EXECUTION_STATUSES))])
        .optional()
        .describe("one status, or a list of statuses of which the execution has one"),
      // The engine checks tags. A record schema here would drop names such as `__proto__` silently.
      tags: z
        .unknown()
        .optional()
        .openapi({
          type: "object",
          additionalProperties: { type: "string", nullable: true },
          description: "tags that the execution must have; null as a value stands for any value",
          example: { team: "ops" },
        }),
      from: z.number().int().nonnegative().optional().describe("executions created at or after this time"),
      to: z.number().int().nonnegative().optional().describe("executions created at or before this time"),
      top: z.boolean().optional().describe("leave out executions that are children of others"),
      waiting: z
        .boolean()
        .optional()
        .describe("only running executions that do nothing but wait for a time or a signal"),
      q: z.string().max(200).optional().describe("search words, as in the list of executions"),
    }),
    dryRun: z.boolean().default(false).describe("only say which"),
    reason: z.string().optional(),
    limit: z.number().int().min(1).max(BULK_MAX).default(BULK_MAX),
    cursor: z.string().optional().describe("the `next` value of the previous call"),
  })
  .openapi("Bulk", {
    example: { action: "cancel", filter: { workflow: "thumbnails", status: "running" }, dryRun: true },
  });

export const bulkAnswer = z
  .object({
    matched: z.number().int(),
    changed: z.number().int(),
    ids: z.array(z.string()),
    refused: z.array(z.object({ id: z.string(), code: z.string(), message: z.string() })),
    next: z.string().nullable().describe("the cursor for the next call; null if there are no more"),
  })
  .openapi("BulkAnswer");
export type BulkAnswer = Shape<typeof bulkAnswer>;

export const progressSchema = executionSchema
  .pick({ id: true, status: true, phases: true, revision: true })
  .extend({ why: z.string().openapi({ description: "what the execution waits for, in a sentence" }), waits });
export type Progress = Shape<typeof progressSchema>;
