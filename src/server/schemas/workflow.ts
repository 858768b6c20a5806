/** Definitions of workflows in JSON. */
import { z } from "@hono/zod-openapi";
import { executionId, time } from "./paging.ts";
import type { Shape } from "./shape.ts";

export const hash = z
  .string()
  .regex(/^[\da-f]{64}$/, "is not a hash")
  .describe("the SHA-256 of the definition's canonical form");

export const definitionSchema = z
  .looseObject({
    rondo: z
      .unknown()
      .optional()
      .openapi({
        type: "integer",
        enum: [1, 2],
        description:
          "The version of the format. In version 2, the code of a handler with `use` alone enumerates its tasks; in version 1, or without a version, its single task is the input. Definitions are stored as version 1.",
      }),
    name: z.unknown().openapi({ type: "string" }),
    phases: z.unknown().openapi({ type: "array", items: { type: "object" } }),
  })
  .openapi("Definition", {
    description:
      "A workflow as data. A handler says where its tasks come from: `use` alone (its code enumerates them), `enumerate: { use }` (other code does), `tasks: [...]`, or `single: true` (one task: the input). Durations are `500ms`, `30s`, `5m`, `2h`, `1d` or milliseconds.",
    example: {
      rondo: 2,
      name: "thumbnails",
      input: { type: "object", required: ["bucket"] },
      phases: [
        { name: "resize", handlers: { resize: { use: "thumbnails.resize", timeout: "30s" } } },
        { name: "publish", handlers: { publish: { use: "thumbnails.publish", single: true } } },
      ],
    },
  });

export const namedSchema = z.object({ name: z.string(), hash: z.string() }).openapi("WorkflowName");
export type WorkflowName = Shape<typeof namedSchema>;

export const workflowSchema = namedSchema.extend({ definition: definitionSchema }).openapi("Workflow");
export type Workflow = Shape<typeof workflowSchema>;

export const versionSchema = z
  .object({
    hash,
    at: time
      .nullable()
      .describe(
        "since when the definition is the newest; null if it became the newest before versions were logged, or never was the newest",
      ),
    version: z.string().nullable().describe("the version that the definition names; null if it names none"),
    open: z.number().int().nonnegative().describe("how many open executions have this definition"),
    oldest: z
      .object({ id: executionId, createdAt: time })
      .nullable()
      .describe("the oldest open execution with this definition; null if there is none"),
    workers: z
      .array(z.string())
      .describe("connected workers that serve some of the definition's code, 20 at most"),
    unserved: z
      .array(z.string())
      .describe("code of the definition, with the range of versions, that no connected worker serves"),
    isNewest: z.boolean().describe("whether starts by the plain name use this version"),
    canRetire: z
      .boolean()
      .describe("true if neither open executions nor starts by the plain name need its code"),
  })
  .openapi("WorkflowVersion");
export type WorkflowVersion = Shape<typeof versionSchema>;

const runs = z.number().int().nonnegative();
const quantile = z.number().nullable().openapi({
  description:
    "a quantile of the durations of done executions or tasks, in milliseconds, exact to about a tenth",
});
const outcomes = {
  done: runs,
  failed: runs,
  cancelled: runs,
  p50Ms: quantile,
  p95Ms: quantile,
  p99Ms: quantile,
};

/** The spans of time over which figures are summed up. */
export const OVERS = ["24h", "7d", "30d"] as const;

/** Figures of a workflow over hours or days. */
export const statsSchema = z
  .object({
    started: runs.openapi({ description: "the executions that started in the asked time" }),
    ...outcomes,
    open: runs.openapi({ description: "the executions that are open now" }),
    periods: z.array(z.object({ at: time, started: runs, ...outcomes }).openapi("WorkflowPeriod")).openapi({
      description: "figures by hour or by day, the oldest first; hours or days without figures are left out",
    }),
    periodMs: z.number().int().openapi({ description: "the length of an hour or day, in milliseconds" }),
    from: time,
    handlers: z
      .array(z.object({ phase: z.string(), handler: z.string(), ...outcomes }).openapi("HandlerStats"))
      .openapi({ description: "outcomes and durations of tasks, by handler" }),
  })
  .openapi("WorkflowStats");
export type WorkflowStats = Shape<typeof statsSchema>;

/** The figures of one workflow in the list of all. */
export const workflowFiguresSchema = z
  .object({ name: z.string(), started: runs, ...outcomes })
  .openapi("WorkflowFigures");
export type WorkflowFigures = Shape<typeof workflowFiguresSchema>;
