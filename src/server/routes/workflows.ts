/** Definitions of workflows, stored by hash and started by name. */

import { z } from "@hono/zod-openapi";
import { isSubmissionName } from "../../commands/submission-definition.ts";
import { isVersionedName } from "../../kernel/definition/version-name.ts";
import { isRelayName } from "../../kernel/relay/relay.ts";
import { isRejection, reject } from "../../std/rejection.ts";
import { OPEN_STATUSES } from "../../store/store.ts";
import { seesProject } from "../auth/caller.ts";
import { json } from "../route.ts";
import { cursor, limit, name, pageOf } from "../schemas/paging.ts";
import {
  definitionSchema,
  hash,
  namedSchema,
  OVERS,
  statsSchema,
  versionSchema,
  workflowFiguresSchema,
  workflowSchema,
} from "../schemas/workflow.ts";
import { withNeeds } from "../services/needed-versions.ts";
import { listVersions } from "../services/version-log.ts";
import { quantileOf, type StoredFigures, sumFigures } from "../services/workflow-figures.ts";
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
    "Storing the same definition again changes nothing. Starts use the newest definition of a name: of those with a `version`, the highest released one. Executions keep the definition that they were started with.",
  access: ["operator", "worker"],
  isGlobal: true,
  body: definitionSchema,
  answers: {
    201: { description: "the definition is the newest now", schema: workflowSchema },
    200: {
      description: "the definition was the newest already, or a higher version is the newest",
      schema: workflowSchema,
    },
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
    "Submitted command workflows are left out: see `/v1/projects/{project}/workflows`. So a page can be short without being the last.",
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
      const { name: listed } = found;
      if (!isSubmissionName(listed) && !isRelayName(listed) && !isVersionedName(listed)) data.push(found);
    }
    if (page.length < Math.max(max, PAST_PAGE)) return { data, next: null };
  }
  return { data, next: at };
}

const getRoute = route({
  id: "getWorkflow",
  request: "GET /v1/workflows/{name}",
  summary: "Get a definition: the newest one, or the one with a hash",
  description: "The ETag of the answer is the hash of the definition.",
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
  summary: "List the versions of a workflow, the newest first, and how many open executions need each",
  description:
    "Each version can be read at `/v1/workflows/{name}?hash=`. A definition that became the newest again is listed again. Versions that were never the newest are at the end of the first page.",
  access: ["viewer", "worker"],
  params,
  query: z.strictObject({ limit: limit(), cursor }),
  answers: { 200: { description: "a page", schema: pageOf(versionSchema, "versions") } },
  async handle({ params: { name: wanted }, query, caller }, services) {
    const page = query.cursor ?? null;
    if (page !== null && !/^\d{15} [\da-f]{16}$/.test(page))
      return reject("invalid_input", "cursor: must be the `next` value of a page", { path: "cursor" });
    const found = await listVersions(services.store, wanted, { cursor: page, max: query.limit });
    if (found === null) return reject("not_found", `there is no workflow "${wanted}"`);
    const of = { ...projectFor(caller, undefined), workflow: wanted, isFirst: page === null };
    return json({ data: await withNeeds(services, found.data, of), next: found.next });
  },
});

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
/** The length of each time span that a caller can ask for, and whether its figures are by hour or by day. */
const SPANS = {
  "24h": { ms: DAY_MS, unit: "hour", periodMs: HOUR_MS },
  "7d": { ms: 7 * DAY_MS, unit: "day", periodMs: DAY_MS },
  "30d": { ms: 30 * DAY_MS, unit: "day", periodMs: DAY_MS },
} as const;

const statsRoute = route({
  id: "getWorkflowStats",
  request: "GET /v1/workflows/{name}/stats",
  summary: "Get outcomes, durations and starts of a workflow, by hour or day and by handler",
  description:
    "The figures are counted after the commits and stored every few seconds, so those of the last seconds of a node that is killed are missing. They are kept as long as ended executions.",
  access: "viewer",
  params,
  query: z.strictObject({
    over: z.enum(OVERS).default("24h").describe("the last 24 hours by hour, or the last days by day"),
    project: name.optional(),
  }),
  answers: { 200: { description: "the figures", schema: statsSchema } },
  refusals: ["not_found"],
  async handle({ params: { name: workflow }, query, caller }, { store, figures, clock }) {
    const filter = projectFor(caller, query.project);
    if (filter === null) return reject("not_found", `there is no workflow "${workflow}"`);
    const { ms, unit, periodMs } = SPANS[query.over];
    const now = clock.now();
    const from = now - ms + periodMs - ((now - ms) % periodMs);
    await figures.store();
    const [periods, counts] = await Promise.all([
      figures.read({ ...filter, workflow }, { unit, from, to: now }),
      store.countHeads({ ...filter, workflow }),
    ]);
    const sum = sumFigures(periods.map(({ figures: one }) => one));
    return json({
      started: sum.started,
      ...shownOutcomes(sum.runs),
      open: OPEN_STATUSES.reduce((n, status) => n + (counts[status] ?? 0), 0),
      ...{ from, periodMs },
      periods: periods.map(({ at, figures: one }) => ({
        ...{ at, started: one.started },
        ...shownOutcomes(one.runs),
      })),
      handlers: Object.entries(sum.handlers).map(([place, of]) => {
        const [phase = "", handler = ""] = place.split("/");
        return { phase, handler, ...shownOutcomes(of) };
      }),
    });
  },
});

const allStatsRoute = route({
  id: "listWorkflowStats",
  request: "GET /v1/workflow-stats",
  summary: "List starts, outcomes and durations of all workflows, since the beginning of yesterday (UTC)",
  access: "viewer",
  answers: {
    200: { description: "the workflows with figures", schema: pageOf(workflowFiguresSchema, "figures") },
  },
  async handle({ caller }, { figures, clock }) {
    const now = clock.now();
    await figures.store();
    const days = await Promise.all([figures.ofDay(now - DAY_MS), figures.ofDay(now)]);
    const seen = days.flat().filter(({ project }) => seesProject(caller, project));
    const names = [...new Set(seen.map(({ workflow }) => workflow))].sort();
    const data = names.map((workflow) => {
      const all = seen.filter((one) => one.workflow === workflow);
      const sum = sumFigures(all.map(({ figures: one }) => one));
      return { name: workflow, started: sum.started, ...shownOutcomes(sum.runs) };
    });
    return json({ data, next: null });
  },
});

function shownOutcomes(of: StoredFigures["runs"]) {
  const { done, failed, cancelled } = of;
  return {
    ...{ done, failed, cancelled },
    p50Ms: quantileOf(of, 0.5),
    p95Ms: quantileOf(of, 0.95),
    p99Ms: quantileOf(of, 0.99),
  };
}

export const workflowRoutes = [putRoute, listRoute, getRoute, versionsRoute, statsRoute, allStatsRoute];
