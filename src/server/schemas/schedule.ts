/** Schedules in JSON. */
import { z } from "@hono/zod-openapi";
import { anyJson, pageOf, time } from "./paging.ts";
import type { Shape } from "./shape.ts";

export const CRON_FORMS =
  "five fields (minute, hour, day, month, weekday), six with seconds first, or @hourly, @daily, @weekly, @monthly or @yearly, which are stored as their five fields";

const count = z.number().int();
export const refusalSchema = z.object({ code: z.string(), message: z.string() });

export const specSchema = z
  .looseObject({
    id: z.unknown().openapi({ type: "string" }),
    workflow: z.unknown().openapi({ type: "string" }),
    input: anyJson.optional(),
    cron: z.unknown().openapi({ type: "string", description: CRON_FORMS }),
    timeZone: z.unknown().optional().openapi({ type: "string", description: "UTC if left out" }),
    misfire: z
      .unknown()
      .optional()
      .openapi({
        type: "string",
        enum: ["fireOnce", "skip", "all"],
        description:
          "for missed due times: fireOnce starts one execution for the latest, skip starts none, all starts one for each (at most 1,000)",
      }),
    overlap: z
      .unknown()
      .optional()
      .openapi({
        type: "string",
        enum: ["allow", "skip", "queue"],
        description:
          "for a due time while the last execution is open: allow starts another one, skip starts none, queue starts one when the last has ended (further due times are skipped)",
      }),
    project: z.unknown().optional().openapi({ type: "string" }),
    tags: z.unknown().optional().openapi({ type: "object" }),
  })
  .openapi("ScheduleSpec", {
    example: {
      id: "nightly",
      workflow: "thumbnails",
      input: { bucket: "b" },
      cron: "0 6 * * *",
      timeZone: "Europe/Berlin",
    },
  });

export const scheduleSchema = z
  .looseObject({
    id: z.string(),
    workflow: z.string(),
    input: anyJson,
    cron: z.string(),
    timeZone: z.string(),
    misfire: z.string(),
    overlap: z.string(),
    project: z.string(),
    next: z.array(z.number()).describe("the next due times"),
    problem: refusalSchema
      .nullish()
      .describe(
        "why a start would be refused now, such as an input that does not match its workflow any more; null if it would be accepted. Only in answers that read schedules",
      ),
    state: z.looseObject({
      paused: z.boolean(),
      lastDue: time.nullable().describe("the last due time that started an execution"),
      lastExecution: z.string().nullable(),
      queued: time.nullable().describe("the due time that waits for the last execution to end"),
      skipped: count.describe("due times that passed while the last execution was open"),
      dropped: count.describe("missed due times that the misfire policy dropped"),
      misfires: z
        .looseObject({ last: time, missed: count })
        .nullable()
        .describe("the last time that due times were missed: the newest of them, and how many"),
      lastError: refusalSchema
        .extend({ due: z.number(), at: z.number() })
        .nullable()
        .describe(
          "why the last due time started no execution; null if it started one. The schedule continues with its next due time",
        ),
    }),
  })
  .openapi("Schedule");
export type Schedule = Shape<typeof scheduleSchema>;

export const scheduleListSchema = pageOf(scheduleSchema, "schedules").extend({
  damaged: z
    .array(z.object({ id: z.string(), damage: z.string(), hint: z.string() }))
    .optional()
    .describe(
      "schedules of this page that cannot be read and do not fire: put them again or delete them. Left out if there are none, and if the list is filtered by project or workflow, which are not known for damaged schedules",
    ),
});
export type ScheduleList = Shape<typeof scheduleListSchema>;
