/** Tokens, sessions, settings and the audit log in JSON. */
import { z } from "@hono/zod-openapi";
import { ROLES } from "../auth/caller.ts";
import { TOKEN_SCOPES } from "../auth/execution-token.ts";
import { name, pageOf, time } from "./paging.ts";
import type { Shape } from "./shape.ts";

export const role = z.enum(ROLES);

/** A token without its secret. */
export const tokenSchema = z
  .object({
    id: z.string(),
    name: z.string(),
    role,
    project: z.string().nullable(),
    createdAt: time,
    createdBy: z.string(),
    expiresAt: time.nullable(),
  })
  .openapi("Token");
export type Token = Shape<typeof tokenSchema>;

/** The answer to the request that makes a token. */
export const createdTokenSchema = tokenSchema.extend({
  token: z.string().openapi({ example: "rondo_01jc..._..." }),
  notice: z
    .string()
    .optional()
    .describe("with the first token: every request over TCP needs a token from now on"),
});
export type NewToken = Shape<typeof createdTokenSchema>;

export const tokenListSchema = pageOf(tokenSchema, "tokens").extend({
  damaged: z
    .array(z.object({ id: z.string(), damage: z.string(), hint: z.string(), guards: z.string().nullable() }))
    .optional()
    .describe(
      "damaged tokens, which are not accepted; only shown to callers that are bound to no project. `guards`: the project whose topics the damaged token still restricts; `*` means all projects",
    ),
});
export type TokenList = Shape<typeof tokenListSchema>;

export const newTokenSchema = z
  .strictObject({
    name: z.string().min(1).max(100).describe("the name of the token's user, which the audit log shows"),
    role,
    project: name.optional().describe("the only project that the token may see and change"),
    expiresAt: z
      .union([z.number().int().nonnegative(), z.iso.datetime({ offset: true })], { error: "must be a time" })
      .optional(),
  })
  .openapi("NewToken", { example: { name: "ci", role: "operator", project: "default" } });

const scopes = z.array(z.enum(TOKEN_SCOPES)).min(1).max(TOKEN_SCOPES.length);

/** The rights of a new token for one execution. */
export const newExecutionTokenSchema = z
  .strictObject({
    scopes: scopes
      .default(["read"])
      .describe(
        "`read`: view, result, published state, streams; `history`: events, logs and tasks; `signal`; `update`; `cancel`",
      ),
    expires: z
      .union([z.string().max(20), z.number()])
      .default("1h")
      .describe("how long the token is valid: `15m`, `2h`, at most `7d`"),
  })
  .openapi("NewExecutionToken", { example: { scopes: ["read", "signal"], expires: "1h" } });

export const executionTokenSchema = z
  .object({
    token: z.string().openapi({ example: "rondo_x.b3JkZXItNw...." }),
    execution: z.string(),
    scopes,
    expiresAt: time,
  })
  .openapi("ExecutionToken");

export const callerSchema = z
  .object({ name: z.string(), role, project: z.string().nullable(), expiresAt: time.nullable() })
  .openapi("Session");
export type Session = Shape<typeof callerSchema>;

export const settingSchema = z
  .object({
    name: z.string(),
    value: z.unknown().describe("secrets are shown as (secret)"),
    origin: z.string().openapi({ example: "environment RONDO_PORT" }),
  })
  .openapi("Setting");
export type Setting = Shape<typeof settingSchema>;

export const entrySchema = z
  .object({
    at: time,
    who: z.string(),
    role: z.string(),
    action: z.string(),
    target: z.string(),
    project: z.string().nullable(),
    reason: z.string().optional().openapi({
      description: "the caller's reason: `reason` in the body, or the header Rondo-Reason (percent-encoded)",
    }),
  })
  .openapi("AuditEntry", {
    example: {
      at: 1_794_700_800_000,
      who: "ci",
      role: "operator",
      action: "execution.cancel",
      target: "nightly-2026-11-15",
      project: "default",
    },
  });
export type AuditEntry = Shape<typeof entrySchema>;
