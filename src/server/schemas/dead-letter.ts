/** Dead letters in JSON, one by one and in groups. */
import { z } from "@hono/zod-openapi";
import { anyJson, time } from "./paging.ts";
import type { Shape } from "./shape.ts";

/** The most tasks of a dead letter that are shown with their errors. A dead letter can have a thousand tasks. */
export const TASKS_SHOWN = 100;

export const taskSchema = z.object({
  n: z.number().int(),
  attempt: z.number().int(),
  reason: z.string().nullable(),
  worker: z.string(),
  error: anyJson,
});

export const deadLetterSchema = z
  .object({
    id: z.number().int(),
    execution: z.string(),
    workflow: z.string(),
    project: z.string(),
    seq: z.number().int().describe("the sequence number of the event that settled the tasks"),
    at: z.number().int().nullable(),
    phase: z.string().nullable(),
    visit: z.number().int(),
    handler: z.string().nullable(),
    count: z.number().int(),
    tasks: z.array(taskSchema).describe(`the failed tasks, at most ${TASKS_SHOWN} of them`),
    postOp: z
      .object({ step: z.number().int(), op: z.string(), target: z.string() })
      .nullable()
      .describe("the broadcast that was given up; null if tasks failed instead"),
  })
  .openapi("DeadLetter");
export type DeadLetter = Shape<typeof deadLetterSchema>;

/** A message between executions without a receiver. */
export const undeliveredSchema = z
  .object({
    id: z.string().describe("the id of the message, which begins with its sender's id"),
    to: z.string().describe("the id of the execution that does not exist"),
    at: time,
    message: anyJson,
  })
  .openapi("UndeliveredMessage");

export const groupSchema = z
  .object({
    id: z.string(),
    project: z.string(),
    workflow: z.string(),
    phase: z.string().nullable(),
    handler: z.string().nullable(),
    name: z.string(),
    message: z.string(),
    tasks: z.number().int(),
    executions: z.number().int(),
    firstAt: time.nullable(),
    lastAt: time.nullable(),
    sample: z.object({ execution: z.string(), task: z.number().int() }),
  })
  .openapi("DeadLetterGroup");
export type DeadLetterGroup = Shape<typeof groupSchema>;

export const doneSchema = z.object({
  changed: z.number().int(),
  tasks: z
    .number()
    .int()
    .optional()
    .openapi({ description: "for a retry: the number of tasks that run again" }),
  refused: z.array(z.object({ id: z.string(), code: z.string(), message: z.string() })),
});
