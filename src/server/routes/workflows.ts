/** Definitions of workflows, stored by hash and started by name. */
import { z } from "@hono/zod-openapi";
import { isSubmissionName } from "../../commands/submission-definition.ts";
import { isRejection, reject } from "../../std/rejection.ts";
import type { StoredHead } from "../../store/store.ts";
import { json } from "../route.ts";
import { cursor, limit, name, pageOf } from "../schemas/paging.ts";
import {
  definitionSchema,
  hash,
  namedSchema,
  statsSchema,
  versionSchema,
  workflowSchema,
} from "../schemas/workflow.ts";
import { listVersions } from "../services/version-log.ts";
import { projectFor, routesOf, type Services } from "./services.ts";

const route = routesOf("workflows");
const PAST_PAGE = 200;
const PAST_PAGES = 25;
const params = z.strictObject({ name });

const putRoute = route({
  id: "putWorkflow",
  request: "POST /v1/workflows",
  summary: "Store a definition",
  description:
    "Storing the same definition again changes nothing. Starts use the newest definition of a name; executions keep the definition that they were started with.",
  access: ["operator", "worker"],
  isGlobal: true,
  body: definitionSchema,
  answers: {
    201: { description: "the definition is the newest now", schema: workflowSchema },
    200: { description: "the definition was the newest already", schema: workflowSchema },
  },
  refusals: ["invalid_definition"],
  audit: "workflow.put",
  async handle(ask, services) {
    const put = await services.definitions.put(ask.body);
    if (isRejection(put)) return put;
    const { definition, hash: stored } = put.known;
    services.engine.definitionStored(definition.name);
    ask.target(`${definition.name} ${stored.slice(0, 12)}`);
    return json(
      { name: definition.name, hash: stored, definition },
      { status: put.isNew ? 201 : 200, headers: { location: `/v1/workflows/${definition.name}` } },
    );
  },
});

const listRoute = route({
  id: "listWorkflows",
  request: "GET /v1/workflows",
  summary: "List workflows: the name and the hash of the newest definition of each",
  access: ["viewer", "worker"],
  description:
    "Submitted command workflows are left out: see `/v1/projects/{project}/workflows`. So a page can be short and not be the last.",
  query: z.strictObject({ limit: limit(), cursor }),
  answers: {
    200: {
      description: "the workflows, in the order of their names",
      schema: pageOf(namedSchema, "workflows"),
    },
  },
  handle: async ({ query }, services) => json(await listNames(services, query.cursor ?? "", query.limit)),
});

/** A page of workflow names without the names of submissions. Only a bounded number of submissions is skipped for one page. */
async function listNames(
  { store }: Services,
  after: string,
  max: number,
): Promise<{ data: { name: string; hash: string }[]; next: string | null }> {
  const data: { name: string; hash: string }[] = [];
  let at = after;
  for (let pages = 0; pages < PAST_PAGES; pages++) {
    const page = await store.listDefinitions({ after: at, max: Math.max(max, PAST_PAGE) });
    for (const found of page) {
      if (data.length === max) return { data, next: at };
      at = found.name;
      if (!isSubmissionName(found.name)) data.push(found);
    }
    if (page.length < Math.max(max, PAST_PAGE)) return { data, next: null };
  }
  return { data, next: at };
}

const getRoute = route({
  id: "getWorkflow",
  request: "GET /v1/workflows/{name}",
  summary: "Get a definition: the newest one, or the one with a hash",
  description: "Its ETag is its hash.",
  access: ["viewer", "worker"],
  params,
  query: z.strictObject({ hash: hash.optional() }),
  headers: { "If-None-Match": "the ETag that the client has" },
  answers: {
    200: { description: "the definition", schema: workflowSchema },
    304: { description: "unchanged: the client has this version" },
  },
  async handle({ params: { name: wanted }, query }, services) {
    const found =
      query.hash === undefined
        ? await services.definitions.newest(wanted)
        : await services.definitions.byHash(query.hash);
    if (isRejection(found)) return found;
    const { definition, hash: stored } = found;
    if (definition.name !== wanted)
      return reject("not_found", `this definition belongs to the workflow "${definition.name}"`, {
        path: "hash",
      });
    return json({ name: wanted, hash: stored, definition }, { headers: { etag: `"${stored}"` } });
  },
});

const versionsRoute = route({
  id: "listWorkflowVersions",
  request: "GET /v1/workflows/{name}/versions",
  summary: "List the versions of a workflow, the newest first",
  description:
    "Each is at `/v1/workflows/{name}?hash=`. A version that became the newest again is listed again.",
  access: ["viewer", "worker"],
  params,
  query: z.strictObject({ limit: limit(), cursor }),
  answers: { 200: { description: "a page", schema: pageOf(versionSchema, "versions") } },
  async handle({ params: { name: wanted }, query }, services) {
    const page = query.cursor ?? null;
    if (page !== null && !/^\d{15} [\da-f]{16}$/.test(page))
      return reject("invalid_input", "cursor: is not the `next` of a page", { path: "cursor" });
    const found = await listVersions(services.store, wanted, { cursor: page, max: query.limit });
    return found === null ? reject("not_found", `there is no workflow "${wanted}"`) : json(found);
  },
});

/** The most executions whose times and outcomes are summed up. */
const STATS_RUNS = 500;

const statsRoute = route({
  id: "getWorkflowStats",
  request: "GET /v1/workflows/{name}/stats",
  summary: "Sum up the newest executions of a workflow: outcomes, durations, starts by hour",
  description: `Of the newest ${STATS_RUNS} executions at most.`,
  access: "viewer",
  params,
  answers: { 200: { description: "the figures", schema: statsSchema } },
  async handle({ params: { name: workflow }, caller }, { store }) {
    const project = projectFor(caller, undefined) ?? {};
    const heads = await store.listHeads({ ...project, workflow }, { before: null, max: STATS_RUNS });
    return json({ ...statsOf(heads), isAll: heads.length < STATS_RUNS });
  },
});

const HOUR_MS = 3_600_000;

/** Sums up executions, which are given newest first. */
function statsOf(heads: readonly StoredHead[]): Omit<z.output<typeof statsSchema>, "isAll"> {
  const of = (status: string): number => heads.filter((head) => head.status === status).length;
  const times = heads
    .flatMap(({ status, createdAt, finishedAt }) =>
      status === "done" && finishedAt !== null ? [finishedAt - createdAt] : [],
    )
    .sort((a, b) => a - b);
  const quantile = (share: number): number | null =>
    times[Math.min(times.length - 1, Math.floor(times.length * share))] ?? null;
  const hours = new Map<number, { at: number; started: number; failed: number }>();
  for (const { createdAt, status } of heads) {
    const at = Math.floor(createdAt / HOUR_MS) * HOUR_MS;
    const hour = hours.get(at) ?? { at, started: 0, failed: 0 };
    hour.started++;
    if (status === "failed") hour.failed++;
    hours.set(at, hour);
  }
  const [done, failed, cancelled] = [of("done"), of("failed"), of("cancelled")];
  return {
    ...{ runs: heads.length, done, failed, cancelled, open: heads.length - done - failed - cancelled },
    ...{ p50Ms: quantile(0.5), p95Ms: quantile(0.95), p99Ms: quantile(0.99) },
    hours: [...hours.values()].reverse(),
  };
}

export const workflowRoutes = [putRoute, listRoute, getRoute, versionsRoute, statsRoute];
