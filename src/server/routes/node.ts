/** Routes for the limits, timers and open attempts of all nodes. */
import { z } from "@hono/zod-openapi";
import { projectScope, rateName } from "../../engine/limits/limits.ts";
import { sha256 } from "../../std/hash.ts";
import { isRejection, type Rejection, reject } from "../../std/rejection.ts";
import type { StoredTimer } from "../../store/store.ts";
import { type Caller, seesProject } from "../auth/caller.ts";
import { mergeOverviews } from "../other-nodes.ts";
import { json } from "../route.ts";
import { attemptSchema, limitSchema, timerSchema } from "../schemas/node.ts";
import { cursor, integer, limit, pageOf } from "../schemas/paging.ts";
import { routesOf, type Services } from "./services.ts";

const route = routesOf("node");

/** How far into the future timers are listed by default: a year. */
const HORIZON_MS = 366 * 86_400_000;
/** The most timers that are read for one page if the caller is bound to a project, and therefore may not see all of them. */
const READ_MAX = 500;

const attemptsRoute = route({
  id: "listAttempts",
  request: "GET /v1/attempts",
  summary: "List open attempts, with the workers that have them",
  access: "viewer",
  query: z.strictObject({ worker: z.string().max(200).optional(), limit: limit(100) }),
  answers: { 200: { description: "some of them", schema: pageOf(attemptSchema, "attempts") } },
  async handle({ query, caller }, services) {
    const { project } = caller;
    const filter = { worker: query.worker ?? null, project, max: query.limit };
    const { nodes, headers } = await services.allNodes.ask({ attempts: filter });
    const data = nodes.flatMap(({ attempts }) => attempts).slice(0, query.limit);
    return json({ data, next: null }, { headers });
  },
});

const limitsRoute = route({
  id: "listLimits",
  request: "GET /v1/limits",
  summary: "List the limits in use, and how many executions wait for them",
  access: "viewer",
  answers: { 200: { description: "all of them", schema: pageOf(limitSchema, "limits") } },
  async handle({ caller }, services) {
    const { nodes, headers } = await services.allNodes.ask({});
    const { limits } = mergeOverviews(nodes.map(({ overview }) => overview));
    const own = caller.project;
    const data =
      own === null
        ? limits
        : limits.filter(
            ({ name }) =>
              name === projectScope(own) ||
              name.startsWith(`${own}/`) ||
              name.startsWith(rateName(`${own}/`)),
          );
    return json({ data, next: null }, { headers });
  },
});

const timersRoute = route({
  id: "listTimers",
  request: "GET /v1/timers",
  summary: "List timers, the soonest first",
  access: "viewer",
  query: z.strictObject({
    until: integer(
      0,
      Number.MAX_SAFE_INTEGER,
      "only timers that are due up to this time, in milliseconds since 1970",
    ).optional(),
    limit: limit(100),
    cursor,
  }),
  answers: { 200: { description: "the soonest", schema: pageOf(timerSchema, "timers") } },
  async handle({ query, caller }, services) {
    const from = query.cursor === undefined ? START : parsePlace(query.cursor);
    if (isRejection(from)) return from;
    const until = query.until ?? services.clock.now() + HORIZON_MS;
    return json(await timerPage(services, caller, { from, until, max: query.limit }));
  },
});

/** The timer after which a page begins: its time, its number among those of the same time, and its name. */
interface TimerPlace {
  readonly due: number;
  readonly seen: number;
  readonly last: string;
}

const START: TimerPlace = { due: 0, seen: 0, last: "" };

function parsePlace(text: string): TimerPlace | Rejection {
  const match = /^(\d{1,16})\.(\d{1,9})\.([\da-f]{16})$/.exec(text);
  if (match === null)
    return reject("invalid_input", "cursor: must be the `next` value of a page", { path: "cursor" });
  return { due: Number(match[1]), seen: Number(match[2]), last: match[3] as string };
}

function nameOf({ execution, timer }: StoredTimer): string {
  return sha256(`${execution}\n${timer}`).slice(0, 16);
}

/**
 * A page of timers that the caller may see. The page ends, with a cursor, after a bounded number of timers that the caller may
 * not see.
 */
async function timerPage(
  services: Services,
  caller: Caller,
  options: { readonly from: TimerPlace; readonly until: number; readonly max: number },
): Promise<{ data: readonly StoredTimer[]; next: string | null }> {
  const { from, until, max } = options;
  const wanted = caller.project === null ? max : Math.max(max, READ_MAX);
  const found = await services.store.scanTimers({
    from: from.due,
    until,
    max: from.seen + wanted,
    partitions: null,
  });
  // If the last timer of the earlier page no longer exists, other timers with the same due time may be listed twice; none is
  // left out.
  const before = found.slice(0, from.seen).findLastIndex((timer) => nameOf(timer) === from.last) + 1;
  const data: StoredTimer[] = [];
  let { due, seen } = before === 0 ? { due: from.due, seen: 0 } : { due: from.due, seen: before };
  for (const [i, timer] of found.slice(before).entries()) {
    if (await sees(services, caller, timer)) data.push(timer);
    seen = timer.due === due ? seen + 1 : 1;
    due = timer.due;
    const isLast = before + i + 1 === found.length && found.length < from.seen + wanted;
    if (isLast) break;
    if (data.length === max || before + i + 1 === found.length)
      return { data, next: `${due}.${seen}.${nameOf(timer)}` };
  }
  return { data, next: null };
}

async function sees({ engine }: Services, caller: Caller, { execution }: StoredTimer): Promise<boolean> {
  if (caller.project === null) return true;
  const found = await engine.inspect(execution);
  return !isRejection(found) && seesProject(caller, found.view.project);
}

export const nodeRoutes = [limitsRoute, timersRoute, attemptsRoute];
