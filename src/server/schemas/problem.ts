import { z } from "@hono/zod-openapi";

/** An RFC 9457 problem. */
export const problemSchema = z
  .object({
    type: z.string().describe("`urn:rondo:problem:` and the code"),
    title: z.string(),
    status: z.number().int(),
    detail: z.string().describe("what is wrong with this request"),
    code: z
      .string()
      .openapi({ description: "the stable code of the problem, for programs", example: "not_found" }),
    hint: z.string().describe("what the caller can do next"),
    path: z.string().optional().describe("the part of the request that is wrong"),
  })
  .openapi("Problem", {
    example: {
      type: "urn:rondo:problem:not_found",
      title: "Not found",
      status: 404,
      detail: "there is no execution nightly-2026-11-15",
      code: "not_found",
      hint: "look up the name in a list, or the path in /openapi.json",
    },
  });
