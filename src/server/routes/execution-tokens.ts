/** Makes tokens for one execution. */
import { parseDuration } from "../../std/duration.ts";
import { isRejection, reject } from "../../std/rejection.ts";
import { writeExecutionToken } from "../auth/execution-token.ts";
import { json } from "../route.ts";
import { executionTokenSchema, newExecutionTokenSchema } from "../schemas/admin.ts";
import { executionParams } from "../schemas/paging.ts";
import { inspectFor, routesOf } from "./services.ts";

const route = routesOf("executions");

/** The longest validity: the tokens are not stored, so they cannot be revoked one by one. */
const EXPIRES_MAX_MS = 7 * 86_400_000;

export const executionTokenRoute = route({
  id: "createExecutionToken",
  request: "POST /v1/executions/{id}/tokens",
  summary: "Make a token that gives access to this execution only",
  description:
    "For a page in a browser. The token is not stored: it is signed, and ends at its expiry, or when the token that made it is revoked. It opens the routes of this execution that its scopes name, and those of executions that continue it (`ID~2`); children are not included. See docs/guides/browsers.md.",
  access: "operator",
  params: executionParams,
  body: newExecutionTokenSchema,
  isBodyOptional: true,
  answers: { 201: { description: "the token", schema: executionTokenSchema } },
  audit: "execution.token",
  async handle(ask, services) {
    const { id } = ask.params;
    const found = await inspectFor(services, ask.caller, id);
    if (isRejection(found)) return found;
    const ms = parseDuration(ask.body.expires, "expires");
    if (isRejection(ms)) return { ...ms, code: "invalid_input" };
    if (ms === 0 || ms > EXPIRES_MAX_MS)
      return reject("invalid_input", "expires: must be more than 0 and at most 7d", {
        path: "expires",
        hint: "a page can get a new token from your server before the old one expires",
      });
    const { project } = found.view;
    const scopes = [...new Set(ask.body.scopes)];
    const expiresAt = services.clock.now() + ms;
    const grant = { execution: id, project, scopes, expiresAt, by: ask.caller.token };
    const token = writeExecutionToken(services.engine.info.key, grant);
    ask.target(`${id} ${scopes.join(",")}`, project);
    return json({ token, execution: id, scopes, expiresAt }, { status: 201 });
  },
});
