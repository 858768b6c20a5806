/** Definitions of workflows in JSON. */
import { z } from "@hono/zod-openapi";
import { time } from "./paging.ts";
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
        "since when the definition is the newest; null if it has been so since before the version log",
      ),
  })
  .openapi("WorkflowVersion");
export type WorkflowVersion = Shape<typeof versionSchema>;

const runs = z.number().int().nonnegative();
const quantile = z
  .number()
  .nullable()
  .openapi({ description: "of the executions that are done, in milliseconds" });

/** Figures of the newest executions of a workflow. */
export const statsSchema = z
  .object({
    runs: runs.openapi({ description: "the number of executions that are summed up" }),
    isAll: z.boolean().openapi({ description: "whether the workflow has no older executions" }),
    done: runs,
    failed: runs,
    cancelled: runs,
    open: runs.openapi({ description: "executions that have not ended, or are damaged" }),
    p50Ms: quantile,
    p95Ms: quantile,
    p99Ms: quantile,
    hours: z
      .array(z.object({ at: z.number().int(), started: runs, failed: runs }))
      .openapi({ description: "starts by hour, the oldest hour first; hours without any are left out" }),
  })
  .openapi("WorkflowStats");
export type WorkflowStats = Shape<typeof statsSchema>;
