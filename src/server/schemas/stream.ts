/** Schemas of streams and published values of an execution. */
import { z } from "@hono/zod-openapi";
import { anyJson } from "./paging.ts";
import type { Shape } from "./shape.ts";

export const pieceSchema = z
  .object({
    id: z
      .string()
      .describe("the position of the piece; a stream with this `Last-Event-ID` continues after it"),
    at: z.number().int(),
    stream: z.string(),
    index: z
      .number()
      .int()
      .describe(
        "the number of the first chunk among those of its writer, from 0. A writer is a step of a task, or its code outside of steps. If a writer begins again at 0, its earlier chunks do not count any more",
      ),
    chunks: z.array(anyJson),
    step: z.string().optional().describe("the step that wrote the chunks"),
    end: z.literal(true).optional().describe("true: an empty piece that ends the stream"),
    phase: z.string(),
    visit: z.number().int(),
    handler: z.string(),
    task: z.number().int(),
    attempt: z.number().int(),
    attemptId: z.string(),
  })
  .openapi("StreamPiece", {
    example: {
      id: "17.0",
      at: 1_767_225_600_000,
      stream: "answer",
      index: 3,
      chunks: ["The ", "invoice ", "is "],
      step: "ask the model",
      phase: "run",
      visit: 1,
      handler: "run",
      task: 0,
      attempt: 1,
      attemptId: "support-17.run.1.run.1.0.1.1.1",
    },
  });
export type StreamPiece = Shape<typeof pieceSchema>;

export const streamMarkSchema = pieceSchema
  .omit({ index: true, chunks: true })
  .extend({
    end: z.literal(true).optional().describe("true if the stream ends here; missing if a writer begins here"),
  })
  .openapi("StreamMark", {
    example: {
      id: "17.0",
      at: 1_767_225_600_000,
      stream: "answer",
      step: "ask the model",
      phase: "run",
      visit: 1,
      handler: "run",
      task: 0,
      attempt: 1,
      attemptId: "support-17.run.1.run.1.0.1.1.1",
    },
  });
export type StreamMark = Shape<typeof streamMarkSchema>;

export const updateSchema = z
  .strictObject({
    data: anyJson.optional(),
    id: z
      .string()
      .optional()
      .describe("an id for the update, like an Idempotency-Key: a repeat gets the same answer"),
  })
  .openapi("Update", { example: { data: { sku: "tea" }, id: "order-7-add-1" } });

export const updatedSchema = z
  .object({
    execution: z.string(),
    update: z.string(),
    id: z.string().describe("the id of the update"),
    answer: anyJson
      .optional()
      .describe("the answer of the code to the update; missing if the code refused it"),
    error: z
      .object({ name: z.string(), message: z.string(), code: z.string().optional() })
      .optional()
      .describe("the error with which the code has refused the update"),
  })
  .openapi("Updated", {
    example: { execution: "cart-7", update: "add", id: "order-7-add-1", answer: 3 },
  });
export type Updated = Shape<typeof updatedSchema>;

export const publishedSchema = z
  .object({
    execution: z.string(),
    published: z.record(z.string(), anyJson).describe("the values by key; empty if there are none"),
    revision: z.number().int().describe("the sequence number of the execution's last event"),
  })
  .openapi("Published", {
    example: { execution: "nightly-2026-01-01", published: { percent: 40 }, revision: 12 },
  });
export type PublishedState = Shape<typeof publishedSchema>;
