/** The routes that only the demo's server has: the state for its page, and the actions of its buttons. */
import { z } from "@hono/zod-openapi";
import type { ApiExtension } from "../../src/server/parts.ts";
import { bindRoutes, json, routesOver } from "../../src/server/route.ts";
import { DEEDS, type Stage } from "./stage.ts";

const shownSchema = z.object({ step: z.string(), isStaying: z.boolean() }).loose().openapi("Demo");
const toldSchema = z.object({ told: z.string() }).openapi("DemoDeed");

const route = routesOver<{ readonly stage: () => Stage }>("demo");

const ROUTES = [
  route({
    id: "getDemo",
    request: "GET /v1/demo",
    summary: "Get the state of the demo",
    access: "viewer",
    isGlobal: true,
    answers: { 200: { description: "the demo", schema: shownSchema } },
    handle: (_ask, { stage }) => json(stage().show()),
  }),
  route({
    id: "changeDemo",
    request: "POST /v1/demo",
    summary: "Kill or freeze a worker, have messages delivered twice, play again",
    access: "operator",
    isGlobal: true,
    body: z.strictObject({ deed: z.enum(DEEDS) }),
    answers: { 200: { description: "what was done", schema: toldSchema } },
    audit: "demo.change",
    handle: async ({ body }, { stage }) => json({ told: await stage().act(body.deed) }),
  }),
];

/** The routes. `stage` is called at the first request. */
export function demoExtension(stage: () => Stage): ApiExtension {
  return { pages: ["demo"], routes: bindRoutes(ROUTES, { stage }) };
}
