/** Dead letters grouped by error, with actions on a whole group. */

import { z } from "@hono/zod-openapi";
import { exactly } from "../../kernel/definition/names.ts";
import { defined } from "../../std/defined.ts";
import { isRejection, type Rejection, RondoError, reject } from "../../std/rejection.ts";
import type { Caller } from "../auth/caller.ts";
import { json } from "../route.ts";
import { doneSchema, groupSchema } from "../schemas/dead-letter.ts";
import { executionId, name, pageOf } from "../schemas/paging.ts";
import type { FoundGroup } from "../services/dead-letter-groups.ts";
import { projectFor, routesOf, type Services } from "./services.ts";

const route = routesOf("dead letters");
const params = z.strictObject({
  id: z.string().regex(/^[\da-f]{16}$/, "is not the id of a group of dead letters"),
});
/** The most executions that one request retries. */
const RETRIED_MAX = 1_000;
const TOGETHER = 50;

const listRoute = route({
  id: "listDeadLetterGroups",
  request: "GET /v1/dead-letter-groups",
  summary: "List groups of dead letters with the same error, the largest first",
  description: "The newest 500 dead letters are grouped; `isAll` is false if there are older ones.",
  access: "viewer",
  query: z.strictObject({
    project: name.optional(),
    workflow: name.optional(),
    execution: executionId.optional(),
  }),
  answers: {
    200: {
      description: "the groups",
      schema: pageOf(groupSchema, "groups").extend({ isAll: z.boolean() }),
    },
  },
  async handle({ query: { project: wanted, workflow, execution }, caller }, services) {
    const project = projectFor(caller, wanted);
    if (project === null) return json({ data: [], next: null, isAll: true });
    const found = await services.deadLetterGroups.list({ ...project, ...defined({ workflow, execution }) });
    return json({ data: found.groups.map(({ group }) => group), next: null, isAll: found.isAll });
  },
});

const retryRoute = route({
  id: "retryDeadLetterGroup",
  request: "POST /v1/dead-letter-groups/{id}/retry",
  summary: "Retry the executions of a group of dead letters",
  description:
    "Retries at most 1,000 executions. If an execution failed or was cancelled, all its unfinished tasks run again; if it runs or is done, only its tasks in the group. Executions that cannot be retried yet are listed as refused.",
  access: "operator",
  params,
  body: z
    .strictObject({ dryRun: z.boolean().default(false).openapi({ description: "only count the tasks" }) })
    .openapi({ example: { dryRun: true } }),
  isBodyOptional: true,
  answers: { 200: { description: "what was done", schema: doneSchema } },
  audit: "dead-letter-group.retry",
  async handle(ask, services) {
    const found = await find(services, ask.caller, ask.params.id);
    if (isRejection(found)) return found;
    const ids = [...new Set(found.letters.map(({ execution }) => execution))].slice(0, RETRIED_MAX);
    const { dryRun } = ask.body;
    const refused: { id: string; code: string; message: string }[] = [];
    let tasks = 0;
    for (let from = 0; from < ids.length; from += TOGETHER) {
      const together = ids.slice(from, from + TOGETHER).map(async (id) => {
        const done = await retry(services, id, { group: found.group.id, by: ask.caller.name, dryRun });
        if (isRejection(done)) refused.push({ id, code: done.code, message: done.message });
        else tasks += done;
      });
      await Promise.all(together);
    }
    ask.target(`${dryRun ? "would " : ""}${describe(found)}`, found.group.project);
    return json({ changed: dryRun ? 0 : ids.length - refused.length, tasks, refused });
  },
});

const dropRoute = route({
  id: "dropDeadLetterGroup",
  request: "POST /v1/dead-letter-groups/{id}/drop",
  summary: "Drop a group of dead letters from the list",
  description: "The executions and their journals stay as they are.",
  access: "operator",
  params,
  answers: { 200: { description: "the number of tasks that were removed", schema: doneSchema } },
  audit: "dead-letter-group.drop",
  async handle(ask, services) {
    const found = await find(services, ask.caller, ask.params.id);
    if (isRejection(found)) return found;
    for (const { order, tasks } of found.letters) await services.store.dropDeadLetter(order, tasks);
    ask.target(describe(found), found.group.project);
    return json({ changed: found.group.tasks, refused: [] });
  },
});

async function find(services: Services, caller: Caller, id: string): Promise<FoundGroup | Rejection> {
  const project = projectFor(caller, undefined) ?? {};
  const { groups: all } = await services.deadLetterGroups.list(project);
  return (
    all.find(({ group }) => group.id === id) ??
    reject("not_found", "the group of dead letters does not exist any more", { hint: "load the list again" })
  );
}

function describe({ group: { workflow, handler, name: error } }: FoundGroup): string {
  return `${workflow} ${handler ?? ""} ${error}`.slice(0, 200);
}

/** Retries an execution because of a group, or only counts the tasks that would run. Returns their number. */
async function retry(
  { rondo, engine }: Services,
  id: string,
  { group, by, dryRun }: { readonly group: string; readonly by: string; readonly dryRun: boolean },
): Promise<number | Rejection> {
  try {
    const found = await engine.inspect(id);
    if (isRejection(found)) return found;
    const isWhole = ["failed", "cancelled"].includes(found.view.status);
    if (!isWhole)
      return (await rondo.execution(exactly(id)).retryTasks({ error: group }, { by, dryRun })).tasks;
    if (found.view.cleanedUp === true)
      return reject("wrong_status", `${id} cannot be retried after its clean-up; start a new execution`);
    if (!dryRun) await rondo.execution(exactly(id)).retry({ by });
    const handlers = found.view.phases.flatMap((phase) => phase.handlers);
    return handlers.reduce((sum, { failed, cancelled }) => sum + failed + cancelled, 0);
  } catch (thrown) {
    if (thrown instanceof RondoError) return reject(thrown.code, thrown.message);
    throw thrown;
  }
}

export const deadLetterGroupRoutes = [listRoute, retryRoute, dropRoute];
