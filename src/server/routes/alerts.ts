/** Routes for alerts: rules, and the alerts that they caused. */
import { z } from "@hono/zod-openapi";
import { isRejection, reject } from "../../std/rejection.ts";
import type { AlertRule } from "../alerts/alert.ts";
import { json, NO_CONTENT } from "../route.ts";
import { alertsSchema, newRuleSchema, ruleSchema, testSchema } from "../schemas/alert.ts";
import { routesOf } from "./services.ts";

const route = routesOf("alerts");
const params = z.strictObject({ id: z.string().min(1).max(40) });
const SHOWN = 50;

export const alertRoutes = [
  route({
    id: "listAlerts",
    request: "GET /v1/alerts",
    summary: "List the rules of alerts, the targets of the configuration file, and the newest alerts",
    access: "operator",
    isGlobal: true,
    answers: { 200: { description: "all rules, and the newest alerts", schema: alertsSchema } },
    async handle(_ask, { alerts, alertTargets }) {
      const [rules, recent] = await Promise.all([alerts.rules(), alerts.recent(SHOWN)]);
      return json({
        rules: rules.map(shown),
        targets: Object.keys(alertTargets),
        alerts: recent.map(({ rule, when, at, text, page, to, state, tries, dueAt, sentAt, error }) => ({
          ...{ rule, when, at, text, page, to: withoutPath(to) },
          ...{ state, tries, dueAt, sentAt, error },
        })),
      });
    },
  }),
  route({
    id: "putAlertRule",
    request: "POST /v1/alerts",
    summary: "Create a rule, or change the rule with the same id",
    description:
      "A rule sends its alerts to a URL, through the same guard as broadcasts, or to a target that the configuration file names. Programs can be named in that file only.",
    access: "admin",
    isGlobal: true,
    body: newRuleSchema,
    answers: { 200: { description: "the rule", schema: ruleSchema } },
    refusals: ["conflict", "forbidden"],
    audit: "alert.put",
    async handle(ask, { alerts }) {
      const made = await alerts.put(ask.body);
      if (isRejection(made)) return made;
      ask.target(made.id);
      return json(shown({ ...made, isOfFile: false }));
    },
  }),
  route({
    id: "deleteAlertRule",
    request: "DELETE /v1/alerts/{id}",
    summary: "Delete a rule",
    access: "admin",
    isGlobal: true,
    params,
    answers: { 204: { description: "it is gone" } },
    audit: "alert.delete",
    async handle(ask, { alerts }) {
      const { id } = ask.params;
      if (!(await alerts.remove(id)))
        return reject("not_found", `there is no rule "${id}" that was made over the API`, {
          hint: "to change a rule of the configuration file, change that file",
        });
      ask.target(id);
      return NO_CONTENT;
    },
  }),
  route({
    id: "testAlertRule",
    request: "POST /v1/alerts/{id}/test",
    summary: "Send a test to the target of a rule",
    access: "operator",
    isGlobal: true,
    params,
    answers: { 200: { description: "whether the target accepted the test", schema: testSchema } },
    audit: "alert.test",
    async handle(ask, { alerts }) {
      const error = await alerts.test(ask.params.id);
      if (isRejection(error)) return error;
      ask.target(ask.params.id);
      return json({ sent: error === null, error });
    },
  }),
];

function shown({
  id,
  when,
  workflow,
  project,
  afterMs,
  to,
  createdAt,
  isOfFile,
}: AlertRule & { readonly isOfFile: boolean }) {
  return {
    ...{ id, when, to: withoutPath(to), createdAt, isOfFile },
    ...(workflow === undefined ? {} : { workflow }),
    ...(project === undefined ? {} : { project }),
    ...(afterMs === undefined ? {} : { afterMs }),
  };
}

/** Returns a URL without its path and query, because in URLs of chat services they are secrets. */
function withoutPath(to: string): string {
  return URL.canParse(to) ? `${new URL(to).origin}/…` : to;
}
