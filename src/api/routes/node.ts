/** What the node holds: limits and timers. */
import { z } from "@hono/zod-openapi";
import { projectScope } from "../../engine/node-state.ts";
import { isRejection } from "../../std/rejection.ts";
import type { StoredTimer } from "../../store/store.ts";
import { type Caller, seesProject } from "../access/caller.ts";
import { json, type Route, route } from "../route.ts";
import { integer, limit, pageOf, time } from "../schemas/paging.ts";
import type { Desk } from "./desk.ts";

const limitSchema = z
  .object({
    name: z.string().openapi({ description: "project and handler, or what else the limit is for" }),
    max: z.number(),
    held: z.number().int(),
    waiting: z.number().int(),
  })
  .openapi("Limit", { example: { name: "default/thumbnails.resize", max: 200, held: 200, waiting: 4_800 } });

const timerSchema = z.object({ execution: z.string(), timer: z.string(), due: time }).openapi("Timer", {
  example: { execution: "nightly-2026-11-15", timer: "cool-off.1.cool-off", due: 1_794_700_800_000 },
});

/** A year ahead, where nothing else is said. */
const HORIZON_MS = 366 * 86_400_000;

/** The routes. */
export function nodeRoutes(desk: Desk): Route[] {
  return [limitsRoute(desk), timersRoute(desk), attemptsRoute(desk)];
}

const attemptSchema = z
  .object({
    attempt: z.string(),
    execution: z.string(),
    project: z.string(),
    phase: z.string(),
    visit: z.number().int(),
    handler: z.string(),
    task: z.number().int().openapi({ description: "the task's number; -1: the enumeration" }),
    n: z.number().int(),
    worker: z.string(),
    status: z.enum(["claimed", "running"]),
    startedAt: time.nullable(),
    leaseUntil: time.nullable(),
  })
  .openapi("OpenAttempt");

function attemptsRoute(desk: Desk): Route {
  return route(
    {
      id: "listAttempts",
      method: "get",
      path: "/v1/attempts",
      tag: "node",
      summary: "Attempts that are open now, and who has them",
      access: "viewer",
      query: z.strictObject({ worker: z.string().max(200).optional(), limit: limit(100) }),
      answers: { 200: { description: "some of them", schema: pageOf(attemptSchema, "attempts") } },
    },
    ({ query, caller }) => {
      const all = desk.engine.openAttempts({ worker: query.worker ?? null, max: query.limit });
      return json({ data: all.filter(({ project }) => seesProject(caller, project)), next: null });
    },
  );
}

function limitsRoute(desk: Desk): Route {
  return route(
    {
      id: "listLimits",
      method: "get",
      path: "/v1/limits",
      tag: "node",
      summary: "Limits in use, and who waits for them",
      access: "viewer",
      answers: { 200: { description: "all of them", schema: pageOf(limitSchema, "limits") } },
    },
    ({ caller }) => {
      const { limits } = desk.engine.overview();
      const own = caller.project;
      const data =
        own === null
          ? limits
          : limits.filter(({ name }) => name === projectScope(own) || name.startsWith(`${own}/`));
      return json({ data, next: null });
    },
  );
}

function timersRoute(desk: Desk): Route {
  return route(
    {
      id: "listTimers",
      method: "get",
      path: "/v1/timers",
      tag: "node",
      summary: "Timers, the soonest first",
      access: "viewer",
      query: z.strictObject({
        until: integer(
          0,
          Number.MAX_SAFE_INTEGER,
          "due up to this time, in milliseconds since 1970",
        ).optional(),
        limit: limit(100),
      }),
      answers: { 200: { description: "the soonest", schema: pageOf(timerSchema, "timers") } },
    },
    async ({ query, caller }) => {
      const until = query.until ?? desk.clock.now() + HORIZON_MS;
      const timers = await desk.store.scanTimers({ until, max: query.limit, partitions: null });
      return json({ data: await visible(desk, caller, timers), next: null });
    },
  );
}

/** Timers of executions that the caller may see. */
async function visible(
  { engine }: Desk,
  caller: Caller,
  timers: readonly StoredTimer[],
): Promise<readonly StoredTimer[]> {
  if (caller.project === null) return timers;
  const seen: StoredTimer[] = [];
  for (const timer of timers) {
    const found = await engine.inspect(timer.execution);
    if (!isRejection(found) && seesProject(caller, found.view.project)) seen.push(timer);
  }
  return seen;
}
