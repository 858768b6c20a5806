/** Routes for the tasks of an execution, as rows and as a map of one byte each. */
import { z } from "@hono/zod-openapi";
import type { AttemptFilter } from "../../engine/io.ts";
import { DamagedData } from "../../kernel/journal/damage.ts";
import { childId } from "../../kernel/tasks/child-messages.ts";
import { isRejection, type Rejection, reject } from "../../std/rejection.ts";
import type { Caller } from "../auth/caller.ts";
import { json } from "../route.ts";
import { lanesSchema, rowSchema, type TaskRow, taskHistorySchema } from "../schemas/execution.ts";
import { cursor, executionParams, integer, limit, name, pageOf, phaseName } from "../schemas/paging.ts";
import { NONE_RUNNING, type RunningTasks, runningOf } from "../views/running-tasks.ts";
import { MAP_KINDS, mapTasks, type StateMap, zipBytes, zipMap } from "../views/state-map.ts";
import { readTaskEvents } from "../views/task-events.ts";
import { TASK_STATES } from "../views/task-index.ts";
import { readTaskRows } from "../views/task-rows.ts";
import type { IndexedHandler, TaskScan } from "../views/task-scan.ts";
import { inspectFor, routesOf, type Services } from "./services.ts";

const route = routesOf("executions");
/** A map of tasks with at least this many bytes is compressed. */
const ZIPPED_FROM = 4_096;

const place = {
  phase: phaseName.optional().describe("the phase; by default the current or last one"),
  visit: integer(1, 1_000_000, "the visit; by default the newest").optional(),
  handler: name.optional().describe("the handler; by default the first"),
  at: integer(1, Number.MAX_SAFE_INTEGER, "the number of an event: show the state after it").optional(),
};

const rowsQuery = z.strictObject({
  ...place,
  status: z.enum(TASK_STATES).optional(),
  from: integer(0, 10_000_000, "the first task's number").optional(),
  detail: z.enum(["summary", "full"]).default("summary").describe("`full`: rows also have the task"),
  cursor,
  limit: limit(100),
});

const statesQuery = z.strictObject({
  ...place,
  by: z.enum(MAP_KINDS).default("state"),
  from: integer(0, Number.MAX_SAFE_INTEGER, "for `within`: the beginning of the interval").optional(),
  to: integer(0, Number.MAX_SAFE_INTEGER, "for `within`: the end of the interval").optional(),
});

type PlaceQuery = Pick<z.output<typeof rowsQuery>, keyof typeof place>;

const lanesRoute = route({
  id: "listLanes",
  request: "GET /v1/executions/{id}/lanes",
  summary: "Get an execution over time: one lane for each handler of a visit",
  access: "viewer",
  params: executionParams,
  query: z.strictObject({
    at: place.at,
    from: integer(
      0,
      Number.MAX_SAFE_INTEGER,
      "the beginning of the window; by default the start of the execution",
    ).optional(),
    to: integer(
      0,
      Number.MAX_SAFE_INTEGER,
      "the end of the window; by default the end of the execution, or now",
    ).optional(),
    pieces: integer(10, 1_000, "the number of intervals in the window, 200 by default").default(200),
  }),
  answers: {
    200: {
      description: "lanes in the order in which they began",
      schema: lanesSchema,
    },
  },
  async handle({ params, query, caller }, services) {
    const found = await scanOf(services, { caller, id: params.id, at: query.at });
    if (isRejection(found)) return found;
    const { scan, isPast, finishedAt } = found;
    const from = query.from ?? scan.startedAt;
    const end = isPast ? scan.lastAt : (finishedAt ?? services.clock.now());
    const to = Math.max(from + 1, query.to ?? end);
    const lanes = services.lanes.lanes(
      scan,
      { from, to, pieces: query.pieces },
      isPast || finishedAt !== null || query.to !== undefined,
    );
    return json({ from, to, revision: scan.seq, lanes });
  },
});

const rowsRoute = route({
  id: "listTasks",
  request: "GET /v1/executions/{id}/tasks",
  summary: "List the tasks of a handler, in the order of their numbers",
  access: "viewer",
  scope: "history",
  params: executionParams,
  query: rowsQuery,
  answers: {
    200: {
      description: "a page of tasks, with their handler and visit",
      schema: pageOf(rowSchema, "tasks").extend({
        phase: z.string().nullable(),
        visit: z.number().int(),
        handler: z.string().nullable(),
        total: z.number().int(),
        revision: z.number().int(),
      }),
    },
  },
  async handle({ params, query, caller }, services) {
    const found = await findHandler(services, { caller, id: params.id, query });
    if (isRejection(found)) return found;
    if (found.handler === null)
      return json({
        data: [],
        next: null,
        phase: null,
        visit: 0,
        handler: null,
        total: 0,
        revision: found.revision,
      });
    const { phase, visit, handler, index } = found.handler;
    const from = query.cursor === undefined ? (query.from ?? 0) : Number(query.cursor);
    if (!Number.isSafeInteger(from) || from < 0)
      return reject("invalid_input", "cursor: must be the `next` value of a page", { path: "cursor" });
    const { running, headers } = await found.begun(found.handler);
    const { data, next } = await readTaskRows(services.store, index, {
      execution: found.id,
      from,
      limit: query.limit,
      status: query.status,
      isFull: query.detail === "full",
      running,
    });
    return json(
      {
        data: data.map((row) => withChild(row, found.id, found.handler)),
        next: next === null ? null : String(next),
        phase,
        visit,
        handler,
        total: index.total,
        revision: found.revision,
      },
      { headers },
    );
  },
});

const historyRoute = route({
  id: "getTaskHistory",
  request: "GET /v1/executions/{id}/tasks/{n}/history",
  summary: "Get a task with all its events: starts, attempts with their errors, steps, waits, its child",
  access: "viewer",
  scope: "history",
  params: executionParams.extend({
    n: z
      .string()
      .regex(/^\d{1,8}$/)
      .transform(Number)
      .openapi({ type: "integer", description: "the task's number" }),
  }),
  query: z.strictObject(place),
  answers: { 200: { description: "the task", schema: taskHistorySchema } },
  async handle({ params, query, caller }, services) {
    const { n } = params;
    const found = await findHandler(services, { caller, id: params.id, query });
    if (isRejection(found)) return found;
    const { id } = found;
    const { handler, revision } = found;
    if (handler === null || n >= handler.index.total)
      return reject("not_found", `execution ${id} has no task ${n} in this handler`);
    const { phase, visit, index } = handler;
    const { running, headers } = await found.begun(handler);
    const rows = await readTaskRows(services.store, index, {
      ...{ execution: id, from: n, limit: 1, status: undefined, isFull: true, running },
    });
    const seqs = index.historyOf(n);
    const events = await readTaskEvents(services.store, { execution: id, task: n, seqs: seqs ?? [] });
    const task = withChild(rows.data[0] as TaskRow, id, handler);
    const more = (seqs?.length ?? 0) - events.length;
    return json(
      { phase, visit, handler: handler.handler, task, events, more, isKept: seqs !== null, revision },
      { headers },
    );
  },
});

const statesRoute = route({
  id: "mapTasks",
  request: "GET /v1/executions/{id}/tasks/states",
  summary: "Get a map of the tasks of a handler, one byte per task",
  description:
    "By `state`: the low half of a byte is the index in pending, running, retrying, waiting, done, failed, cancelled; the high half is the number of attempts, up to 15. By `ms` and `worker`: a byte is the number of a bucket. By `within`: a byte is 1 if the task ran between `from` and `to`. The header Rondo-Legend explains the bytes, as JSON.",
  access: "viewer",
  scope: "history",
  params: executionParams,
  query: statesQuery,
  answers: {
    200: {
      description: "one byte for each task, in the order of their numbers",
      types: ["application/octet-stream"],
    },
  },
  async handle(ask, services) {
    const { params, query, caller } = ask;
    const found = await findHandler(services, { caller, id: params.id, query });
    if (isRejection(found)) return found;
    if (found.handler === null) return reject("not_found", `execution ${found.id} has no tasks yet`);
    const { index } = found.handler;
    const { running, headers } = await found.begun(found.handler);
    const isZipped = index.total >= ZIPPED_FROM && /\bgzip\b/.test(ask.header("accept-encoding") ?? "");
    const plain = (): StateMap =>
      mapTasks(index, query.by, {
        running,
        from: (query.from ?? 0) - found.origin,
        to: (query.to ?? Number.MAX_SAFE_INTEGER) - found.origin,
      });
    const { bytes, legend } = !isZipped
      ? plain()
      : query.by !== "within" && running.size === 0
        ? await zipMap(index, query.by, found.revision)
        : await zippedOf(plain());
    return {
      kind: "bytes",
      status: 200,
      type: "application/octet-stream",
      body: bytes,
      headers: {
        ...headers,
        ...(isZipped ? { "content-encoding": "gzip" } : {}),
        vary: "accept-encoding",
        "rondo-legend": legend,
        "rondo-revision": String(found.revision),
        "rondo-handler": `${found.handler.phase}.${found.handler.visit}.${found.handler.handler}`,
      },
    };
  },
});

async function zippedOf({ bytes, legend }: StateMap): Promise<StateMap> {
  return { bytes: await zipBytes(bytes), legend };
}

/** The row of a task; if the task is a child execution, it has the child's id instead of a worker. */
function withChild(row: TaskRow, execution: string, handler: IndexedHandler | null): TaskRow {
  if (handler?.index.hasChildren !== true || row.attempts === 0) return row;
  return { ...row, worker: null, child: childId(execution, handler, row.n) };
}

/** Scans the tasks of an execution, as they are now or as they were after an earlier event. */
async function scanOf(
  services: Services,
  { caller, id: given, at }: { caller: Caller; id: string; at: number | undefined },
): Promise<{ id: string; scan: TaskScan; isPast: boolean; finishedAt: number | null } | Rejection> {
  const found = await inspectFor(services, caller, given);
  if (isRejection(found)) return found;
  const { id, revision, workflowHash, createdAt, finishedAt, damage } = found.view;
  const seq = at ?? revision;
  if (seq > revision)
    return reject("invalid_input", `at: execution ${id} has events 1 to ${revision}, not ${seq}`, {
      path: "at",
    });
  const known = await services.definitions.byHash(workflowHash);
  if (isRejection(known)) {
    // The scan is empty because the definition is damaged.
    if (damage !== undefined) throw new DamagedData({ ...damage, execution: id });
    return known;
  }
  const isPast = seq < revision;
  const scan = await services.tasks.scan(id, known.plan, { seq, isPast, createdAt });
  return { id, scan, isPast, finishedAt };
}

/** The most attempts whose starts are read from the nodes, because the journal may not have them yet. */
const BEGUN_MAX = 1_000;

interface FoundHandler {
  /** The id of the execution. */
  readonly id: string;
  /** The handler that the query names; null if no such handler has started. */
  readonly handler: IndexedHandler | null;
  readonly revision: number;
  readonly origin: number;
  /** Tasks of the handler whose attempts have begun, journaled or not; the header names nodes that did not answer. */
  begun(
    handler: IndexedHandler,
  ): Promise<{ readonly running: RunningTasks; readonly headers: Readonly<Record<string, string>> }>;
}

async function findHandler(
  services: Services,
  { caller, id: given, query }: { caller: Caller; id: string; query: PlaceQuery },
): Promise<FoundHandler | Rejection> {
  const found = await scanOf(services, { caller, id: given, at: query.at });
  if (isRejection(found)) return found;
  const { id, scan, isPast, finishedAt } = found;
  const handler = choose(scan, query);
  const isNamed = query.phase !== undefined || query.visit !== undefined || query.handler !== undefined;
  if (handler === null && isNamed)
    return reject("not_found", `execution ${id} has not visited ${placeText(query)}`, {
      hint: "see the phases of the execution, which its view lists",
    });
  const begun: FoundHandler["begun"] = async (place) => {
    if (isPast || finishedAt !== null) return { running: NONE_RUNNING, headers: {} };
    const { engine, allNodes } = services;
    const filter: AttemptFilter = { worker: null, execution: id, max: BEGUN_MAX };
    if (engine.isOwn(id)) return { running: runningOf(engine.openAttempts(filter), place), headers: {} };
    const { nodes, headers } = await allNodes.ask({ attempts: filter });
    return {
      running: runningOf(
        nodes.flatMap(({ attempts }) => attempts),
        place,
      ),
      headers,
    };
  };
  return { id, handler, revision: scan.seq, origin: scan.startedAt, begun };
}

/** The first matching handler of the newest matching visit. */
function choose(scan: TaskScan, { phase, visit, handler }: PlaceQuery): IndexedHandler | null {
  let best: IndexedHandler | null = null;
  for (const candidate of scan.handlers) {
    if (phase !== undefined && candidate.phase !== phase) continue;
    if (visit !== undefined && candidate.visit !== visit) continue;
    if (handler !== undefined && candidate.handler !== handler) continue;
    if (best === null || best.phase !== candidate.phase || best.visit !== candidate.visit) best = candidate;
  }
  return best;
}

function placeText({ phase, visit, handler }: PlaceQuery): string {
  return Object.entries({ phase, visit, handler })
    .flatMap(([what, value]) => (value === undefined ? [] : [`${what} ${value}`]))
    .join(", ");
}

export const taskRoutes = [rowsRoute, historyRoute, statesRoute, lanesRoute];
