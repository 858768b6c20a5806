/** Routes of the overview (counts, rates, open work, health lights), and of the progress of a few executions. */

import { z } from "@hono/zod-openapi";
import { exactly } from "../../kernel/definition/names.ts";
import type { BrokerView } from "../../protocol/broker-view.ts";
import { isRejection, reject } from "../../std/rejection.ts";
import type { StoredHead } from "../../store/store.ts";
import { type Caller, seesProject } from "../auth/caller.ts";
import { mergeOverviews } from "../other-nodes.ts";
import { json } from "../route.ts";
import { progressSchema } from "../schemas/execution.ts";
import { counts, type Light, overviewSchema, waitingCount } from "../schemas/node.ts";
import { executionId, integer, name, pageOf } from "../schemas/paging.ts";
import { mergePulses } from "../views/pulse.ts";
import { countWorkers } from "../worker-protocol/worker-views.ts";
import { inspectFor, projectFor, routesOf, type Services } from "./services.ts";

const route = routesOf("node");
const PROGRESS_MAX = 100;
const TOGETHER = 8;

const overviewRoute = route({
  id: "getOverview",
  request: "GET /v1/overview",
  summary: "Get an overview of all nodes: counts, rates, waiting work, status lights",
  access: "viewer",
  query: z.strictObject({
    seconds: integer(1, 899, "the number of seconds for which rates are returned, 300 by default").default(
      300,
    ),
  }),
  answers: { 200: { description: "of all nodes", schema: overviewSchema } },
  async handle({ query, caller }, services) {
    const isBound = caller.project !== null;
    const project = isBound ? { project: caller.project } : {};
    const [{ nodes, headers }, found, waiting, oldest] = await Promise.all([
      services.allNodes.ask(isBound ? {} : { pulse: query.seconds }),
      services.store.countHeads(project),
      services.store.countWaiting(project),
      oldestOf(services, caller),
    ]);
    const all = mergeOverviews(nodes.map(({ overview }) => overview));
    const figures = countWorkers(all);
    const body = {
      at: services.clock.now(),
      version: services.config.version,
      ...{ counts: found, waiting },
      pulse: isBound ? null : mergePulses(nodes.flatMap(({ pulse }) => pulse ?? [])),
      held: isBound ? 0 : all.leases,
      capacity: isBound ? 0 : figures.capacity,
      workers: isBound ? 0 : figures.workers,
      ready: isBound ? [] : all.ready,
      oldest,
      lights: lightsOf(services, headers["rondo-missing"] ?? null),
    };
    return json(body, { headers });
  },
});

const countsRoute = route({
  id: "countExecutions",
  request: "GET /v1/counts",
  summary: "Count executions by status, and those that sleep or wait for a signal",
  access: "viewer",
  query: z.strictObject({ project: name.optional(), workflow: name.optional() }),
  answers: { 200: { description: "the counts", schema: z.object({ counts, waiting: waitingCount }) } },
  async handle({ query: { project: wanted, workflow }, caller }, services) {
    const project = projectFor(caller, wanted);
    if (project === null) return json({ counts: {}, waiting: 0 });
    const filter = { ...project, ...(workflow === undefined ? {} : { workflow }) };
    const [found, waiting] = await Promise.all([
      services.store.countHeads(filter),
      services.store.countWaiting(filter),
    ]);
    return json({ counts: found, waiting });
  },
});

const progressRoute = route({
  id: "getProgress",
  request: "GET /v1/progress",
  summary: "Get the progress of some executions: their phases, without inputs and outputs",
  access: "viewer",
  query: z.strictObject({
    ids: z
      .string()
      .max(PROGRESS_MAX * 601)
      .describe(`at most ${PROGRESS_MAX} ids, each percent-encoded, separated by commas`),
  }),
  answers: {
    200: { description: "the progress of the executions that exist", schema: pageOf(progressSchema, "them") },
  },
  async handle({ query, caller }, services) {
    const ids = query.ids.split(",").map(decoded);
    if (ids.length > PROGRESS_MAX || !ids.every((id) => executionId.safeParse(id).success))
      return reject("invalid_input", `ids: must be up to ${PROGRESS_MAX} execution ids`, { path: "ids" });
    const data: z.output<typeof progressSchema>[] = [];
    for (let from = 0; from < ids.length; from += TOGETHER) {
      const found = ids.slice(from, from + TOGETHER).map((id) => inspectFor(services, caller, exactly(id)));
      for (const one of await Promise.all(found)) {
        if (isRejection(one)) continue;
        const { id, status, phases, revision } = one.view;
        const { why, waits = null } = one;
        data.push({ id, status, phases, revision, why, waits } as z.output<typeof progressSchema>);
      }
    }
    return json({ data, next: null });
  },
});

/** The oldest execution with open work that the caller may see, and why it waits. */
async function oldestOf({ store, engine }: Services, caller: Caller) {
  const heads = await store.scanWork({ after: {}, each: 1, partitions: null });
  const oldest = heads
    .filter(({ project }) => seesProject(caller, project))
    .reduce<StoredHead | null>(
      (best, head) => (best === null || head.order < best.order ? head : best),
      null,
    );
  if (oldest === null) return null;
  const { id, workflow, createdAt } = oldest;
  const found = await engine.inspect(id);
  if (isRejection(found) || found.view.finishedAt !== null) return null;
  return { id, workflow, phase: found.view.phase, createdAt, why: found.why };
}

function lightsOf(
  { engine, broker, ring }: Services,
  missing: string | null,
): Record<"store" | "broker" | "ring", Light> {
  const fault = engine.commitFault;
  return {
    store:
      fault === null
        ? { state: "ok", text: "takes writes" }
        : { state: "bad", text: `the store takes no writes: ${fault.message.slice(0, 200)}` },
    broker: brokerLight(broker?.view ?? null),
    ring: ringLight(ring?.() ?? null, missing),
  };
}

function brokerLight(view: BrokerView | null): Light {
  if (view === null) return { state: "off", text: "none configured" };
  if (view.fault !== null) return { state: "bad", text: view.fault.slice(0, 200) };
  return { state: "ok", text: `${view.state}, ${view.queues} queues` };
}

function ringLight(view: ReturnType<NonNullable<Services["ring"]>> | null, missing: string | null): Light {
  if (view === null) return { state: "off", text: "one node, no ring" };
  const { nodes } = view.ring;
  if (missing !== null) return { state: "bad", text: `no answer from ${missing}` };
  const suspects = nodes.filter(({ suspect }) => suspect).length;
  if (suspects > 0) return { state: "warn", text: `${suspects} of ${nodes.length} nodes do not answer` };
  const apart = nodes.filter(({ agrees }) => !agrees).length;
  return apart > 0
    ? { state: "warn", text: `${apart} of ${nodes.length} nodes see another order of the ring` }
    : { state: "ok", text: `${nodes.length} nodes agree` };
}

/** Decodes one id of a list of ids; an id with an invalid percent-encoding becomes empty. */
function decoded(id: string): string {
  try {
    return decodeURIComponent(id);
  } catch (error) {
    if (error instanceof URIError) return "";
    throw error;
  }
}

export const overviewRoutes = [overviewRoute, countsRoute, progressRoute];
