/** Schemas of events that are sent, and of their answers. */
import { z } from "@hono/zod-openapi";

export const sentEventSchema = z.object({
  id: z.string(),
  repeated: z.boolean(),
  targets: z.array(
    z.object({
      workflow: z.string(),
      execution: z.string().optional(),
      action: z.enum(["start", "signal", "cancel", "held"]),
    }),
  ),
  refused: z.array(z.object({ workflow: z.string(), reason: z.string() })),
});

export const eventListSchema = z.object({
  data: z.array(
    z.object({
      at: z.number(),
      execution: z.string(),
      name: z.string(),
      id: z.string(),
      project: z.string(),
      isMatched: z.boolean(),
    }),
  ),
  next: z.string().nullable(),
});
