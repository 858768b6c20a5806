/** The Model Context Protocol over HTTP: a message is a request, and its answer is plain JSON. */
import { z } from "@hono/zod-openapi";
import { answerMcp } from "../../mcp/mcp-server.ts";
import { json } from "../route.ts";
import { routesOf } from "./services.ts";

const route = routesOf("mcp");

export const mcpRoute = route({
  id: "mcp",
  request: "POST /mcp",
  summary: "Answer a message of the Model Context Protocol",
  description:
    "Each workflow is a tool; a long execution is a task. Every message is answered on its own, with the rights of its token. See docs/guides/agents.md.",
  access: "known",
  body: z.looseObject({ jsonrpc: z.literal("2.0") }).openapi("McpMessage", {
    example: { jsonrpc: "2.0", id: 1, method: "tools/list", params: {} },
  }),
  timeMs: null,
  answers: {
    200: { description: "the answer to a request", schema: z.looseObject({}) },
    202: { description: "the message is a notification, which has no answer" },
  },
  async handle({ body, caller }, { callsOf, config }) {
    const answer = await answerMcp(body, { api: callsOf(caller), version: config.version });
    return answer === null ? json(null, { status: 202 }) : json({ ...answer });
  },
});
