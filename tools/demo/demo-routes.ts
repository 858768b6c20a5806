/** What only the demo's server has: a page, what it shows, and what its buttons do. */
import { z } from "@hono/zod-openapi";
import type { ApiExtension } from "../../src/server/parts.ts";
import { json, route } from "../../src/server/route.ts";
import { DEEDS, type Stage } from "./stage.ts";

const shownSchema = z.object({ step: z.string(), isStaying: z.boolean() }).loose().openapi("Demo");
const toldSchema = z.object({ told: z.string() }).openapi("DemoDeed");

/** The routes; `stage` is there when they are first asked. */
export function demoExtension(stage: () => Stage): ApiExtension {
  return {
    pages: ["demo"],
    routes: [
      route(
        {
          id: "getDemo",
          method: "get",
          path: "/v1/demo",
          tag: "demo",
          summary: "What the demo does just now",
          access: "viewer",
          isGlobal: true,
          answers: { 200: { description: "the demo", schema: shownSchema } },
        },
        () => json(stage().show()),
      ),
      route(
        {
          id: "changeDemo",
          method: "post",
          path: "/v1/demo",
          tag: "demo",
          summary: "Kill or freeze a worker, have messages delivered twice, play again",
          access: "operator",
          isGlobal: true,
          body: z.strictObject({ deed: z.enum(DEEDS) }),
          answers: { 200: { description: "what was done", schema: toldSchema } },
          audit: "demo.change",
        },
        async ({ body }) => json({ told: await stage().act(body.deed) }),
      ),
    ],
  };
}
