/** Dead letters by what went wrong, and what can be done with all of one kind. */
import { z } from "@hono/zod-openapi";
import { isRejection, type Rejection, RondoError, reject } from "../../std/rejection.ts";
import type { Caller } from "../auth/caller.ts";
import { json, type Route, route } from "../route.ts";
import { name, pageOf, time } from "../schemas/paging.ts";
import { DeadLetterGroups, type FoundGroup } from "../services/dead-letter-groups.ts";
import { projectFor, type Services } from "./services.ts";

const TAG = "dead letters";
const params = z.strictObject({ id: z.string().regex(/^[\da-f]{16}$/, "is not the id of a group") });
/** Executions that one call retries. */
const RETRIED_MAX = 1_000;
const TOGETHER = 50;

const groupSchema = z
  .object({
    id: z.string(),
    project: z.string(),
    workflow: z.string(),
    phase: z.string().nullable(),
    handler: z.string().nullable(),
    name: z.string(),
    message: z.string(),
    tasks: z.number().int(),
    executions: z.number().int(),
    firstAt: time.nullable(),
    lastAt: time.nullable(),
    sample: z.object({ execution: z.string(), task: z.number().int() }),
  })
  .openapi("DeadLetterGroup");

const doneSchema = z.object({
  changed: z.number().int(),
  refused: z.array(z.object({ id: z.string(), code: z.string(), message: z.string() })),
});

/** The routes. */
export function deadLetterGroupRoutes(services: Services): Route[] {
  const groups = new DeadLetterGroups(services.store);
  return [listRoute(groups), retryRoute(services, groups), dropRoute(services, groups)];
}

function listRoute(groups: DeadLetterGroups): Route {
  return route(
    {
      id: "listDeadLetterGroups",
      method: "get",
      path: "/v1/dead-letter-groups",
      tag: TAG,
      summary: "Tasks that failed for good, by what went wrong, most first",
      description: "Of the newest 500 letters; `isAll` says whether there are older ones.",
      access: "viewer",
      query: z.strictObject({ project: name.optional(), workflow: name.optional() }),
      answers: {
        200: {
          description: "the groups",
          schema: pageOf(groupSchema, "groups").extend({ isAll: z.boolean() }),
        },
      },
    },
    async ({ query: { project: wanted, workflow }, caller }) => {
      const project = projectFor(caller, wanted);
      if (project === null) return json({ data: [], next: null, isAll: true });
      const found = await groups.list({ ...project, ...(workflow === undefined ? {} : { workflow }) });
      return json({ data: found.groups.map(({ group }) => group), next: null, isAll: found.isAll });
    },
  );
}

function retryRoute(services: Services, groups: DeadLetterGroups): Route {
  return route(
    {
      id: "retryDeadLetterGroup",
      method: "post",
      path: "/v1/dead-letter-groups/{id}/retry",
      tag: TAG,
      summary: "Retry the executions that a group is of",
      description: "At most 1,000 at once; those that cannot be retried yet are listed as refused.",
      access: "operator",
      params,
      answers: { 200: { description: "what was done", schema: doneSchema } },
      audit: "dead-letter-group.retry",
    },
    async (ask) => {
      const found = await find(groups, ask.caller, ask.params.id);
      if (isRejection(found)) return found;
      const ids = [...new Set(found.letters.map(({ execution }) => execution))].slice(0, RETRIED_MAX);
      const refused: { id: string; code: string; message: string }[] = [];
      for (let from = 0; from < ids.length; from += TOGETHER) {
        const together = ids.slice(from, from + TOGETHER).map(async (id) => {
          const wrong = await retry(services, id, ask.caller.name);
          if (wrong !== null) refused.push({ id, code: wrong.code, message: wrong.message });
        });
        await Promise.all(together);
      }
      ask.target(describe(found), found.group.project);
      return json({ changed: ids.length - refused.length, refused });
    },
  );
}

function dropRoute(services: Services, groups: DeadLetterGroups): Route {
  return route(
    {
      id: "dropDeadLetterGroup",
      method: "post",
      path: "/v1/dead-letter-groups/{id}/drop",
      tag: TAG,
      summary: "Take a group off the list",
      description: "The executions and their journals stay as they are.",
      access: "operator",
      params,
      answers: { 200: { description: "how many tasks are off the list", schema: doneSchema } },
      audit: "dead-letter-group.drop",
    },
    async (ask) => {
      const found = await find(groups, ask.caller, ask.params.id);
      if (isRejection(found)) return found;
      for (const { order, tasks } of found.letters) await services.store.dropDeadLetter(order, tasks);
      ask.target(describe(found), found.group.project);
      return json({ changed: found.group.tasks, refused: [] });
    },
  );
}

async function find(groups: DeadLetterGroups, caller: Caller, id: string): Promise<FoundGroup | Rejection> {
  const project = projectFor(caller, undefined) ?? {};
  const { groups: all } = await groups.list(project);
  return (
    all.find(({ group }) => group.id === id) ??
    reject("not_found", "there is no such group any more", { hint: "load the list again" })
  );
}

function describe({ group: { workflow, handler, name: error } }: FoundGroup): string {
  return `${workflow} ${handler ?? ""} ${error}`.slice(0, 200);
}

async function retry({ rondo }: Services, id: string, by: string): Promise<Rejection | null> {
  try {
    await rondo.execution(id).retry({ by });
    return null;
  } catch (thrown) {
    if (thrown instanceof RondoError) return reject(thrown.code, thrown.message);
    throw thrown;
  }
}
