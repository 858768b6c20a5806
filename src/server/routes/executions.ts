/** Routes that start, list and read executions. */

import { z } from "@hono/zod-openapi";
import { inspectNewest, isLast } from "../../engine/newest.ts";
import { exactly } from "../../kernel/definition/names.ts";
import { type ExecutionView, hasEnded } from "../../kernel/view.ts";
import { checkList, checkStart, EXECUTION_STATUSES, Q_CHARS_MAX } from "../../protocol/check-request.ts";
import { jsonFields } from "../../std/decode.ts";
import { defined } from "../../std/defined.ts";
import { isRejection, type Rejection, reject } from "../../std/rejection.ts";
import { listOrSearch } from "../../store/search-heads.ts";
import { currentHash, type StoredHead, userTags } from "../../store/store.ts";
import type { Caller } from "../auth/caller.ts";
import { etagOf } from "../http/send-answer.ts";
import { type Answer, type Ask, bytes, json } from "../route.ts";
import {
  droppedSchema,
  executionSchema,
  type Result,
  resultSchema,
  STARTS_MAX,
  startManyAnswer,
  startManySchema,
  startSchema,
  summarySchema,
  wait,
  whySchema,
} from "../schemas/execution.ts";
import {
  cursor,
  executionParams,
  flag,
  integer,
  limit,
  name,
  PAGE_CHARS,
  pageOf,
} from "../schemas/paging.ts";
import { EndWatch } from "../services/end-watch.ts";
import { type Started, type StartedUnseen, type StartRequest, timeOf } from "../services/start-executions.ts";
import { viewSource } from "../streams/view-source.ts";
import { lastEventId, openFeed, STREAM, STREAM_HEADERS, wantsStream } from "./events.ts";
import { idTaken, inspectFor, keyedId, projectFor, routesOf, type Services } from "./services.ts";

const route = routesOf("executions");

const listQuery = z.strictObject({
  project: name.optional(),
  workflow: name.optional(),
  status: z
    .string()
    .transform((text, context) => {
      const parsed = z.array(z.enum(EXECUTION_STATUSES)).safeParse(text.split(","));
      if (!parsed.success)
        context.addIssue({
          code: "custom",
          message: `must be one or more of ${EXECUTION_STATUSES.join(", ")}`,
        });
      return parsed.data ?? [];
    })
    .optional()
    .openapi({
      type: "string",
      description: "one status, or several, separated by commas",
      example: "failed",
    }),
  from: integer(
    0,
    Number.MAX_SAFE_INTEGER,
    "only executions created at or after this time, in milliseconds since 1970",
  ).optional(),
  to: integer(0, Number.MAX_SAFE_INTEGER, "only executions created at or before this time").optional(),
  top: flag("leave out executions that are children of others"),
  waiting: flag("only running executions that do nothing but wait for a time or a signal"),
  q: z
    .string()
    .max(Q_CHARS_MAX)
    .optional()
    .describe(
      "words that must all match: the beginning of its id, the beginning of its definition's hash (from 8 digits), the whole name of its workflow (case counts), a tag (`team=ops`, `team`, `ops`), or a word of its error. Executions that changed within the last 2 s may be missing. A page can have fewer items than its limit and still have a `next`",
    ),
  tags: z
    .string()
    .max(4_096)
    .transform((text, context) => {
      const tags = jsonFields(text);
      if (tags === null)
        context.addIssue({ code: "custom", message: "must be a JSON object of texts or nulls" });
      return tags ?? {};
    })
    .optional()
    .openapi({
      type: "string",
      description:
        'tags that it must have, as JSON: `{"team":"ops"}`; null stands for any value. Indexed as `q` is',
      example: '{"team":"ops"}',
    }),
  detail: z
    .enum(["summary", "full"])
    .default("summary")
    .describe(
      "`full` shows executions as `GET /v1/executions/{id}` does, at most 100 on a page, fewer if they are large",
    ),
  limit: limit(),
  cursor,
});

const FULL_MAX = 100;
/** The most executions that are read at the same time, since each may be as large as its input and output. */
const VIEWED_TOGETHER = 4;

const startRoute = route({
  id: "startExecution",
  request: "POST /v1/executions",
  summary: "Start an execution",
  description:
    "The execution is durable when the request is answered. Starting again with the same `id`, workflow and input returns the same execution; another start under that id is a conflict. Without an `id`, it is derived from the Idempotency-Key: the same key in the same project starts once. With `wait` the answer comes when the execution has ended, with its `output` or `error`; a caller who disconnects before that does not stop the execution.",
  access: "operator",
  query: z.strictObject({
    wait: wait(
      "wait for the end of the execution for up to this time, at most 60s; if it has not ended by then, the answer has the header `Preference-Applied: wait=timeout`",
    ),
  }),
  body: startSchema,
  headers: {
    "Idempotency-Key": "if the body has no `id`: one execution is started for each key and project",
    traceparent: "W3C trace context, passed on to the tasks",
  },
  answers: {
    201: { description: "it is started", schema: executionSchema },
    200: {
      description: "the execution exists already, with the same workflow and input",
      schema: executionSchema,
    },
  },
  refusals: ["not_found", "conflict", "not_storable"],
  audit: "execution.start",
  async handle(ask, services) {
    const { body, caller, idempotencyKey: key, trace } = ask;
    const { engine, clock } = services;
    const { wait: waitMs = 0 } = ask.query;
    let watch: EndWatch | null = null;
    const onId = (id: string): void => {
      if (waitMs > 0) watch = new EndWatch(engine, clock, id);
    };
    const request = { body, key, trace, onId };
    const started =
      waitMs > 0
        ? await startFor(services, caller, request, (start) => services.starts.startWatched(start))
        : await startFor(services, caller, request);
    const watching = watch as EndWatch | null;
    if (isRejection(started)) {
      watching?.stop();
      return started;
    }
    ask.target(started.id, started.view === null ? started.project : started.view.project);
    if (started.view !== null) {
      const { view } = started;
      if (watching === null || (hasEnded(view) && view.continuedAs === undefined)) {
        watching?.stop();
        return startedAnswer({ ...started, view });
      }
      if (view.continuedAs !== undefined) await watching.find();
    }
    const answer = async () => {
      const end = (await watching?.wait(waitMs, ask)) ?? "stopped";
      const view = watching?.view ?? (await viewNow(engine, started));
      if (isRejection(view)) return view;
      const isLate = end === "late" || end === "stopped";
      return startedAnswer({ ...started, view }, isLate ? { "preference-applied": "wait=timeout" } : {});
    };
    return { kind: "waits", answer };
  },
});

async function viewNow(
  engine: Services["engine"],
  { id, view }: Started | StartedUnseen,
): Promise<ExecutionView | Rejection> {
  const found = await inspectNewest((one) => engine.inspect(one), id);
  return isRejection(found) ? (view ?? found) : found.view;
}

function startedAnswer(
  { id, existed, view }: Omit<Started, "commands">,
  headers: Readonly<Record<string, string>> = {},
) {
  return json(view, {
    status: existed ? 200 : 201,
    headers: { location: `/v1/executions/${encodeURIComponent(id)}`, ...headers },
  });
}

const startManyRoute = route({
  id: "startExecutions",
  request: "POST /v1/executions/batch",
  summary: "Start many executions of one workflow",
  description: `At most ${STARTS_MAX} starts, in few commits. All are durable when answered. Each start has its own answer, in the order of the starts: a refused start does not prevent the others. Repeating a start with the same \`id\` and input returns the same execution. A start without an \`id\` gets one from the Idempotency-Key and its place in the list.`,
  access: "operator",
  body: startManySchema,
  headers: {
    "Idempotency-Key":
      "for starts without an `id`: one execution for each key, project and place in the list",
    traceparent: "W3C trace context, passed on to the tasks",
  },
  answers: { 200: { description: "an answer for each start", schema: startManyAnswer } },
  refusals: ["not_found"],
  audit: "execution.start_many",
  async handle(ask, services) {
    const { workflow, starts } = ask.body;
    const { caller, idempotencyKey: key, trace } = ask;
    const { project } = ask.body;
    const whole = checkOptions(project === undefined ? {} : { project }, caller, null);
    if (isRejection(whole)) return whole;
    const requestOf = (start: StartItem, i: number) => {
      const options = itemOptions(start, project);
      const checked = checkOptions(options, caller, key === null ? null : `${key}\n${i}`);
      return isRejection(checked) ? checked : { ...checked, input: start.input, trace };
    };
    const target = { workflow, project: whole.project };
    const started = await services.starts.startMany(target, starts, requestOf);
    if (isRejection(started)) return started;
    ask.target(workflow, whole.project);
    return json({
      data: started.map((one) =>
        isRejection(one) ? { error: shownError(caller, one) } : { id: one.id, existed: one.existed },
      ),
    });
  },
});

/** The options of one start of a batch. Most starts have only an input and an id, and are not copied field by field. */
function itemOptions(start: StartItem, project: string | undefined): StartOptions {
  const inProject = project === undefined ? {} : { project };
  for (const field in start)
    if (field !== "input" && field !== "id") {
      const { input: _, ...own } = start;
      return { ...own, ...inProject };
    }
  return start.id === undefined ? inProject : { id: start.id, ...inProject };
}

function shownError(caller: Caller, refused: Rejection): Omit<Rejection, "kind"> {
  const { kind: _, ...error } = refused.code === "conflict" ? idTaken(caller, refused) : refused;
  return error;
}

const listRoute = route({
  id: "listExecutions",
  request: "GET /v1/executions",
  summary: "List executions, the newest first",
  access: "viewer",
  query: listQuery,
  answers: {
    200: {
      description: "a page",
      schema: pageOf(z.union([summarySchema, executionSchema]), "executions"),
    },
  },
  handle: (ask, services) => listExecutions(services, ask.caller, ask.query),
});

const getRoute = route({
  id: "getExecution",
  request: "GET /v1/executions/{id}",
  summary: "Get an execution, as it is now or as it was after an event",
  description:
    "The answer has an ETag; with If-None-Match, the answer is 304 while nothing has changed. As a stream: the view is sent at first and after each change, until the execution has ended; only the first view has `input`.",
  access: "viewer",
  scope: "read",
  params: executionParams,
  query: z.strictObject({
    at: integer(1, Number.MAX_SAFE_INTEGER, "the number of an event: show the state after it").optional(),
  }),
  headers: { "If-None-Match": "the ETag that the client has", ...STREAM_HEADERS },
  answers: {
    200: { description: "the execution", schema: executionSchema, types: [STREAM] },
    304: { description: "unchanged: the client has this version" },
  },
  async handle(ask, services) {
    const { params, query, caller } = ask;
    const found = await inspectFor(services, caller, params.id);
    if (isRejection(found)) return found;
    if (query.at === undefined && wantsStream(ask)) return streamViews(ask, services, found.view.id);
    const view =
      query.at === undefined ? found.view : await services.rondo.stateAt(exactly(found.view.id), query.at);
    const body = JSON.stringify(view);
    return {
      kind: "bytes",
      status: 200,
      type: "application/json",
      body,
      headers: { etag: etagOf(body, view.revision) },
    };
  },
});

function streamViews(ask: Ask, services: Services, id: string): Answer<never> {
  const last = lastEventId(ask) ?? "0";
  if (!/^\d{1,15}$/.test(last))
    return reject("invalid_input", `"${last.slice(0, 40)}" is not a revision`, { path: "Last-Event-ID" });
  const source = () => viewSource(services, id);
  return openFeed(ask, services, { key: `views ${id}`, source, from: last, follow: false });
}

const resultRoute = route({
  id: "getResult",
  request: "GET /v1/executions/{id}/result",
  summary: "Get the result of an execution, with an optional wait for its end",
  description:
    "Answers when the execution, and any execution that continues it, has ended: `{ status, output }` if it is done, else `{ status, error }`. If it has not ended in time, the answer is 504 with the code `timeout`, and the execution continues.",
  access: "viewer",
  scope: "read",
  params: executionParams,
  query: z.strictObject({ wait: wait("wait for the execution's end for up to this time (0s to 60s)") }),
  answers: { 200: { description: "it has ended", schema: resultSchema } },
  refusals: ["timeout", "not_ready"],
  async handle(ask, services) {
    const { id } = ask.params;
    const { wait: waitMs = 0 } = ask.query;
    // The execution is watched before its result is read, so that an end in between is not missed.
    const watch = new EndWatch(services.engine, services.clock, id);
    const found = await inspectFor(services, ask.caller, id);
    if (isRejection(found) || isLast(id, found) || waitMs === 0) {
      watch.stop();
      if (isRejection(found)) return found;
      return isLast(id, found) ? resultOf(found.view) : notEnded(id, waitMs);
    }
    watch.follow(found);
    const answer = async (): Promise<Answer<Result>> => {
      const end = await watch.wait(waitMs, ask);
      if (end === "late") return notEnded(id, waitMs);
      if (end === "stopped")
        return reject("not_ready", "the server closes", { hint: "the execution continues; ask again" });
      if (end.status === "done") return bytes(`{"status":"done","output":${end.output ?? "null"}}`);
      if (watch.view !== null) return resultOf(watch.view);
      const ended = await services.engine.inspect(watch.execution);
      return isRejection(ended) ? ended : resultOf(ended.view);
    };
    return { kind: "waits", answer };
  },
});

function notEnded(id: string, waitMs: number): Rejection {
  return reject("timeout", `execution ${id} has not ended within ${waitMs} ms`, {
    hint: "the execution continues; send the request again to wait for it",
  });
}

function resultOf({ status, output, error }: ExecutionView): Answer<Result> {
  if (status === "failed" || status === "cancelled" || status === "damaged") return json({ status, error });
  return json({ status: "done", output });
}

const whyRoute = route({
  id: "whyExecution",
  request: "GET /v1/executions/{id}/why",
  summary: "Explain in one sentence what an execution waits for",
  access: "viewer",
  scope: "read",
  params: executionParams,
  answers: {
    200: {
      description: "the reason",
      schema: whySchema,
      example: {
        id: "nightly-2026-11-15",
        status: "paused",
        why: "It is paused by jo; resume it to go on.",
        waits: null,
        signals: [],
      },
    },
  },
  async handle({ params, caller }, services) {
    const found = await inspectFor(services, caller, params.id);
    if (isRejection(found)) return found;
    const { view, why, waits = null, signals = [] } = found;
    return json({ id: view.id, status: view.status, why, waits, signals });
  },
});

const droppedRoute = route({
  id: "listDropped",
  request: "GET /v1/executions/{id}/dropped",
  summary: "List duplicate and stale messages of an execution",
  description:
    "The list has a limited length, is kept in the memory of the node that owns the execution, and is not stored.",
  access: "viewer",
  params: executionParams,
  answers: {
    200: { description: "the newest last", schema: pageOf(droppedSchema, "dropped messages") },
  },
  async handle({ params, caller }, services) {
    const found = await inspectFor(services, caller, params.id);
    return isRejection(found)
      ? found
      : json({ data: await services.engine.dropped(found.view.id), next: null });
  },
});

/** Starts an execution for a caller, by `start`. If the body has no id, the id is derived from `key`. */
export async function startFor<S extends Started | StartedUnseen = Started>(
  { starts }: Pick<Services, "starts">,
  caller: Caller,
  request: Pick<StartRequest, "trace" | "onId"> & {
    readonly body: z.output<typeof startSchema>;
    readonly key: string | null;
  },
  start: (request: StartRequest) => Promise<S | Rejection> = (one) =>
    starts.start(one) as Promise<S | Rejection>,
): Promise<S | Rejection> {
  const { body, key, ...more } = request;
  const { workflow, input, ...options } = body;
  const checked = checkOptions(options, caller, key);
  if (isRejection(checked)) return checked;
  const started = await start({ ...checked, workflow, input, ...more });
  if (isRejection(started)) return started.code === "conflict" ? idTaken(caller, started) : started;
  return started.view === null || started.view.project === checked.project
    ? started
    : idTaken(caller, reject("conflict", `execution ${started.id} exists in another project`));
}

type StartOptions = Omit<z.output<typeof startSchema>, "workflow" | "input">;
type StartItem = z.output<typeof startManySchema>["starts"][number];

/** The options of a start, with the id that is derived from the idempotency key. */
function checkOptions(
  options: StartOptions,
  caller: Caller,
  key: string | null,
): ReturnType<typeof checkStart> {
  const given = startOptionsFor(options, caller);
  const checked = isRejection(given) ? given : checkStart(given);
  if (isRejection(checked) || checked.id !== undefined || key === null) return checked;
  return { ...checked, id: keyedId(checked.project, key) };
}

/** The options of a start in the project of its caller, with times in milliseconds. */
export function startOptionsFor(
  options: Omit<StartOptions, "ifExists"> & { readonly ifExists?: string | undefined },
  caller: Caller,
): object | Rejection {
  const own = caller.project;
  if (own !== null && options.project !== undefined && options.project !== own)
    return reject("forbidden", `${caller.name} is bound to the project "${own}"`, { path: "project" });
  if (options.startAt === undefined && options.deadline === undefined)
    return own === null ? options : { ...options, project: own };
  const { startAt, deadline, ...rest } = options;
  const times: Record<string, number> = {};
  for (const [field, value] of Object.entries({ startAt, deadline })) {
    const ms = value === undefined ? undefined : timeOf(value, field);
    if (isRejection(ms)) return ms;
    if (ms !== undefined) times[field] = ms;
  }
  return { ...rest, ...times, ...(own === null ? {} : { project: own }) };
}

async function listExecutions(services: Services, caller: Caller, query: z.output<typeof listQuery>) {
  const { detail, project: wanted, from: since, to: until, q: search, ...options } = query;
  const project = projectFor(caller, wanted);
  if (project === null) return json({ data: [], next: null });
  const checked = checkList({ ...options, ...project, ...defined({ since, until, search }) });
  if (isRejection(checked)) return checked;
  const max = detail === "full" ? Math.min(FULL_MAX, checked.max) : checked.max;
  const found = await listOrSearch(services.store, { ...checked, max });
  const { heads } = found;
  const next = found.next === null ? null : String(found.next);
  return detail === "summary" ? json({ data: heads.map(summaryOf), next }) : viewsOf(services, heads, next);
}

/** A page of execution views. The page ends early if inputs and outputs are large. */
async function viewsOf(
  { engine }: Services,
  heads: readonly StoredHead[],
  next: string | null,
): Promise<Answer<never>> {
  const texts: string[] = [];
  let chars = 0;
  let from = 0;
  for (; from < heads.length && chars < PAGE_CHARS; from += VIEWED_TOGETHER) {
    const together = heads.slice(from, from + VIEWED_TOGETHER).map(({ id }) => engine.inspect(id));
    for (const found of await Promise.all(together)) {
      // A purged execution is left out of the list. If the owner of an execution cannot be reached, the whole list is refused.
      if (isRejection(found) && found.code !== "not_found") return found;
      if (isRejection(found)) continue;
      const text = JSON.stringify(found.view);
      texts.push(text);
      chars += text.length;
    }
  }
  const goesOnAt = from < heads.length ? String(heads[from - 1]?.order) : next;
  const body = `{"data":[${texts.join(",")}],"next":${JSON.stringify(goesOnAt)}}`;
  return bytes(body);
}

/** An execution in a list. */
export function summaryOf(head: StoredHead): z.infer<typeof summarySchema> {
  const { id, workflow, project, status, phase, error, createdAt, finishedAt } = head;
  return {
    id,
    workflow,
    workflowHash: currentHash(head),
    project,
    status: status as (typeof EXECUTION_STATUSES)[number],
    phase,
    error,
    tags: userTags(head),
    createdAt,
    finishedAt,
  };
}

export const executionRoutes = [
  startRoute,
  startManyRoute,
  listRoute,
  getRoute,
  resultRoute,
  whyRoute,
  droppedRoute,
];
