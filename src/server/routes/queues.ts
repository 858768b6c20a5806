/** Routes for queues that operators pause and resume. */
import { z } from "@hono/zod-openapi";
import { reject } from "../../std/rejection.ts";
import { json } from "../route.ts";
import { pausedQueueSchema } from "../schemas/node.ts";
import { pageOf } from "../schemas/paging.ts";
import { routesOf } from "./services.ts";

const route = routesOf("node");
const params = z.strictObject({
  use: z
    .string()
    .min(1)
    .max(300)
    .refine((use) => use.isWellFormed() && !/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/u.test(use), {
      error: "must not have control or format characters",
    })
    .openapi({ description: "the name of the code, or `topic:` and the name of a topic" }),
});

export const queueRoutes = [
  route({
    id: "listPausedQueues",
    request: "GET /v1/queues/paused",
    summary: "List the queues that operators paused",
    access: "viewer",
    isGlobal: true,
    answers: { 200: { description: "all of them", schema: pageOf(pausedQueueSchema, "queues") } },
    handle: (_ask, { pausedQueues }) => json({ data: pausedQueues.all, next: null }),
  }),
  route({
    id: "pauseQueue",
    request: "POST /v1/queues/{use}/pause",
    summary: "Pause a queue: no node gives out its tasks; running attempts continue",
    description: "All nodes of a cluster apply the pause within two seconds.",
    access: "operator",
    isGlobal: true,
    params,
    body: z.strictObject({ reason: z.string().max(500).optional() }),
    isBodyOptional: true,
    answers: { 200: { description: "the queue", schema: pausedQueueSchema } },
    audit: "queue.pause",
    async handle(ask, { pausedQueues, clock }) {
      const { use } = ask.params;
      const queue = { use, by: ask.caller.name, at: clock.now(), reason: ask.body.reason ?? null };
      await pausedQueues.pause(queue);
      ask.target(use);
      return json(queue);
    },
  }),
  route({
    id: "resumeQueue",
    request: "POST /v1/queues/{use}/resume",
    summary: "Resume a queue that is paused",
    access: "operator",
    isGlobal: true,
    params,
    answers: { 200: { description: "it is resumed", schema: z.object({ use: z.string() }) } },
    audit: "queue.resume",
    async handle(ask, { pausedQueues }) {
      const { use } = ask.params;
      if (!(await pausedQueues.resume(use))) return reject("not_found", `the queue "${use}" is not paused`);
      ask.target(use);
      return json({ use });
    },
  }),
];
