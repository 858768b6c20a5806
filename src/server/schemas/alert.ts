/** Rules of alerts, and alerts, on the wire. */
import { z } from "@hono/zod-openapi";
import { ALERT_CAUSES } from "../alerts/alert.ts";
import { time } from "./paging.ts";
import type { Shape } from "./shape.ts";

const when = z
  .enum(ALERT_CAUSES)
  .describe(
    "`execution.failed`; `error.new`: a group of errors that was not seen before; `queue.old`: work is ready, and no worker has taken any for `afterMs`; `node.died`",
  );
const fields = {
  id: z
    .string()
    .regex(/^[A-Za-z][A-Za-z0-9_-]{0,39}$/, "must be a letter, then up to 39 letters, digits, _ or -"),
  when,
  workflow: z.string().min(1).max(100).optional().describe("only for this workflow"),
  project: z.string().min(1).max(100).optional().describe("only for this project"),
  afterMs: z
    .number()
    .int()
    .min(1_000)
    .max(30 * 86_400_000)
    .optional()
    .describe("for `queue.old`: how long no worker has taken work; ten minutes by default"),
};

/** The body of a request that makes a rule. */
export const newRuleSchema = z
  .strictObject({
    ...fields,
    to: z
      .string()
      .min(1)
      .max(2_000)
      .describe("a URL, which gets a signed POST, or the name of a target of the configuration file"),
  })
  .openapi("NewAlertRule", {
    example: { id: "payments", when: "execution.failed", workflow: "pay", to: "https://hooks.example.com/x" },
  });

export const ruleSchema = z
  .object({
    ...fields,
    to: z.string().describe("the name of a target, or a URL without its path and query, which may be secret"),
    createdAt: time,
    isOfFile: z.boolean().describe("whether the rule is in the configuration file"),
  })
  .openapi("AlertRule");
export type AlertRule = Shape<typeof ruleSchema>;

export const alertSchema = z
  .object({
    rule: z.string(),
    when,
    at: time,
    text: z.string(),
    page: z.string().describe("the page of the dashboard that shows the cause"),
    to: z.string(),
    state: z.enum(["open", "sent", "failed"]),
    tries: z.number().int(),
    dueAt: time.describe("for an open alert: when the next try is due"),
    sentAt: time.nullable(),
    error: z.string().nullable().describe("why the last try failed"),
  })
  .openapi("Alert");
export type Alert = Shape<typeof alertSchema>;

export const alertsSchema = z.object({
  rules: z.array(ruleSchema),
  targets: z.array(z.string()).describe("the names of targets of the configuration file"),
  alerts: z.array(alertSchema).describe("the newest alerts, the newest first"),
});
export type Alerts = Shape<typeof alertsSchema>;

export const testSchema = z.object({
  sent: z.boolean(),
  error: z.string().nullable().describe("why the target did not accept the test"),
});
