/**
 * Routes that authenticate with an attempt's own token, while the attempt holds its lease: earlier results, runs of scripts,
 * logs, status.
 */
import { z } from "@hono/zod-openapi";
import type { ScriptFacts } from "../../engine/leases/attempt-facts.ts";
import { NAME_PATTERN, PHASE_PATTERN } from "../../kernel/definition/definition.ts";
import { CHECKPOINTS_MAX } from "../../kernel/tasks/checkpoint.ts";
import { ATTEMPT_ID_CHARS_MAX } from "../../protocol/attempt-id.ts";
import type { EventsAnswer } from "../../protocol/worker-wire.ts";
import { isRejection, type Rejection, reject } from "../../std/rejection.ts";
import { readMapItems } from "../../store/map-items.ts";
import type { Store } from "../../store/store.ts";
import { type Answer, json, routesOver } from "../route.ts";
import {
  itemsSchema,
  logsSchema,
  resultsSchema,
  runSchema,
  runStatusSchema,
  scriptSchema,
  statusAnswerSchema,
  statusSchema,
  toldSchema,
} from "../schemas/worker.ts";
import type { AttemptRecord } from "./attempt-record.ts";
import { readResults } from "./attempt-results.ts";
import { readState } from "./item-history.ts";
import type { WorkerSessions } from "./worker-sessions.ts";

const id = z
  .string()
  .max(ATTEMPT_ID_CHARS_MAX)
  .describe("the attempt's id as it was given; percent-encoded in a URL, as it may hold a %");
const name = z.string().regex(NAME_PATTERN);
const phase = z.string().regex(PHASE_PATTERN);

const route = routesOver<WorkerSessions>("attempts");

const readRoutes = [
  route({
    id: "getAttemptResults",
    request: "GET /v1/attempts/{id}/results/{phase}/{handler}",
    summary: "Read the results of earlier phases",
    access: "attempt",
    params: z.object({ id, phase, handler: name }),
    query: z.strictObject({
      visit: z.coerce.number().int().positive().optional(),
      cursor: z.string().max(40).optional(),
      tasks: z
        .string()
        .regex(/^\d{1,8}(,\d{1,8}){0,99}$/)
        .optional()
        .describe("numbers of tasks: the answer has these tasks as they were enumerated, as `data`"),
      child: z
        .string()
        .max(200)
        .optional()
        .describe("the name under which the task runs a child: the answer has the results of that child"),
    }),
    answers: {
      200: { description: "settled tasks of one visit, in journal order", schema: resultsSchema },
    },
    refusals: ["stale_attempt"],
    async handle({ params, query, bearer }, sessions) {
      const attempt = await sessions.attempt(params.id, bearer, { isRead: true });
      if (isRejection(attempt)) return attempt;
      const { phase, handler } = params;
      const isKnown = query.visit !== undefined || query.child !== undefined || !attempt.isAdopted;
      const visit = isKnown ? query.visit : await sessions.newestVisit(attempt, phase);
      const tasks = query.tasks === undefined ? undefined : new Set(query.tasks.split(",").map(Number));
      const wanted = { phase, handler, cursor: query.cursor, visit, tasks, child: query.child };
      const page = await readResults(sessions.store, attempt, wanted);
      return isRejection(page) ? page : { kind: "bytes", status: 200, type: "application/json", body: page };
    },
  }),
  route({
    id: "getMapItems",
    request: "GET /v1/attempts/{id}/items/{page}",
    summary: "Read a page of the items of a map",
    description:
      "This route is only for the enumeration of an execution that `map` has started. `data` is null after the last page.",
    access: "attempt",
    params: z.object({ id, page: z.coerce.number().int().min(0).max(CHECKPOINTS_MAX) }),
    answers: { 200: { description: "a list of items", schema: itemsSchema } },
    refusals: ["stale_attempt", "not_found"],
    async handle({ params, bearer }, sessions) {
      const attempt = await sessions.attempt(params.id, bearer, { isRead: true });
      if (isRejection(attempt)) return attempt;
      const page = await readMapItems(sessions.store, attempt.shared.place.execution, params.page);
      if (isRejection(page)) return page;
      return { kind: "bytes", status: 200, type: "application/json", body: `{"data":${page}}` };
    },
  }),
  route({
    id: "getRunArtifacts",
    request: "GET /v1/attempts/{id}/runs/{run}",
    summary: "Get the state before a run of a script, and the expression of the run",
    access: "attempt",
    params: z.object({ id, run: z.string().max(200) }),
    answers: { 200: { description: "the state before the run, and its expression", schema: runSchema } },
    refusals: ["stale_attempt", "wrong_status"],
    async handle({ params, bearer }, sessions) {
      const read = await readScript(sessions, params.id, bearer);
      if (isRejection(read)) return read;
      const { attempt, script } = read;
      return runArtifacts(sessions.store, attempt, { script, run: params.run });
    },
  }),
  route({
    id: "getAttemptRuns",
    request: "GET /v1/attempts/{id}/runs",
    summary: "Get the runs of a script's attempt, and the state before the next one",
    access: "attempt",
    params: z.object({ id }),
    answers: { 200: { description: "the runs", schema: scriptSchema } },
    refusals: ["stale_attempt", "not_found"],
    async handle({ params, bearer }, sessions) {
      const read = await readScript(sessions, params.id, bearer);
      if (isRejection(read)) return read;
      const { attempt, script } = read;
      if (script === null) return reject("not_found", "this is not an attempt of a script");
      const { project, finished, runs } = script;
      const head = JSON.stringify({ project, finished, runs }).slice(0, -1);
      const state = await stateBefore(sessions.store, attempt, script);
      return { kind: "bytes", status: 200, type: "application/json", body: `${head},"state":${state}}` };
    },
  }),
  route({
    id: "getRunStatus",
    request: "GET /v1/attempts/{id}/runs/{run}/status",
    summary: "Get the status of a run",
    description:
      "The status is available while the attempt holds its lease. Afterwards all its runs have ended, and the events (`kinds=task.run`) say how each ended.",
    access: "attempt",
    params: z.object({ id, run: z.string().max(200) }),
    answers: { 200: { description: "its status", schema: runStatusSchema } },
    refusals: ["stale_attempt", "not_found"],
    async handle({ params, bearer }, sessions) {
      const read = await readScript(sessions, params.id, bearer);
      if (isRejection(read)) return read;
      const { attempt, script } = read;
      const { runs, finished, begun } = script ?? NO_SCRIPT;
      const index = indexOfRun(runs, params.run);
      const run = runs[index]?.name;
      if (run === undefined) return noRun(params.run);
      const isBegun = index === finished && begun?.name === run;
      const status =
        index < finished ? "finished" : !isBegun ? "pending" : begun.isOpen ? "running" : "crashed";
      return json({ attempt: attempt.id, worker: attempt.worker, run, index, status });
    },
  }),
];

const reportRoutes = [
  route({
    id: "addAttemptLogs",
    request: "POST /v1/attempts/{id}/logs",
    summary: "Add log lines to an attempt",
    access: "attempt",
    params: z.object({ id }),
    body: logsSchema,
    answers: { 200: { description: "they are stored", schema: toldSchema } },
    refusals: ["stale_attempt"],
    async handle({ params, body, bearer }, sessions) {
      const attempt = await sessions.attempt(params.id, bearer);
      if (isRejection(attempt)) return attempt;
      const said = body.lines.map((line) => ({ kind: "log", ...line }));
      return verdictAnswer(await sessions.attemptEvents(attempt, said), attempt);
    },
  }),
  route({
    id: "setAttemptStatus",
    request: "POST /v1/attempts/{id}/status",
    summary: "Report the status of an attempt, or of a run of its script",
    access: "attempt",
    params: z.object({ id }),
    body: statusSchema,
    answers: { 200: { description: "it is stored", schema: statusAnswerSchema } },
    refusals: ["stale_attempt", "wrong_status", "invalid_input"],
    async handle({ params, body, bearer }, sessions) {
      const isReceipt = (body.status === "done" || body.status === "crashed") && body.run === undefined;
      const attempt = await sessions.attempt(params.id, bearer, { isReceipt });
      if (isRejection(attempt)) return attempt;
      if (body.status === "running") {
        const word = await sessions.beat(attempt);
        return isRejection(word) ? word : json({ attempt: attempt.id, word });
      }
      const early = isReceipt && body.status === "done" ? await refuseEarly(sessions, attempt) : null;
      if (early !== null) return early;
      return verdictAnswer(await sessions.attemptEvents(attempt, [eventOf(body)]), attempt);
    },
  }),
];

/** Returns the refusal of the status `done` if the attempt's script has unfinished runs; null if it has none, or the attempt is over. */
async function refuseEarly(sessions: WorkerSessions, attempt: AttemptRecord): Promise<Rejection | null> {
  const script = await sessions.script(attempt);
  if (script === null || isRejection(script)) return null;
  const next = script.runs[script.finished]?.name;
  if (next === undefined) return null;
  return reject("wrong_status", `the attempt is not done: run ${next} is not finished`, hintOfNext(script));
}

/** The hint that names the next run. */
function hintOfNext({ runs, finished }: Pick<ScriptFacts, "runs" | "finished">): { readonly hint: string } {
  const next = runs[finished]?.name;
  return {
    hint: `${finished} of ${runs.length} runs are finished${next === undefined ? "" : `; the next is ${next}`}`,
  };
}

/** Reads the state before a run, and the run's expression. The run is given by name, or by number from 0. */
async function runArtifacts(
  store: Store,
  attempt: AttemptRecord,
  { script, run }: { readonly script: ScriptFacts | null; readonly run: string },
): Promise<Answer<never>> {
  const { runs, finished, state } = script ?? NO_SCRIPT;
  const index = indexOfRun(runs, run);
  const found = runs[index];
  if (found === undefined) return noRun(run);
  if (index !== finished)
    return reject("wrong_status", `run ${found.name} is not the next one`, hintOfNext({ runs, finished }));
  const text = await stateBefore(store, attempt, { state });
  const body = `{"state":${text},"expression":${JSON.stringify(found.expression)}}`;
  return { kind: "bytes", status: 200, type: "application/json", body };
}

/** Reads the state before the next run of a script, as JSON text. */
async function stateBefore(
  store: Store,
  { shared, task }: AttemptRecord,
  { state }: Pick<ScriptFacts, "state">,
): Promise<string> {
  if (typeof state === "string") return state;
  return readState(store, shared.place.execution, { seq: state, task });
}

/** The index of a run that is given by name, or by number from 0. */
function indexOfRun(runs: ScriptFacts["runs"], run: string): number {
  const named = runs.findIndex((one) => one.name === run);
  return named < 0 && /^\d{1,6}$/.test(run) ? Number(run) : named;
}

function noRun(run: string): Rejection {
  return reject("not_found", `the attempt has no run ${run.slice(0, 100)}`);
}

/** Finds the attempt that the bearer's token belongs to, and its script; `script` is null for an attempt without runs. */
async function readScript(sessions: WorkerSessions, id: string, bearer: string | null) {
  const attempt = await sessions.attempt(id, bearer, { isRead: true });
  if (isRejection(attempt)) return attempt;
  const script = await sessions.script(attempt);
  return isRejection(script) ? script : { attempt, script };
}

const NO_SCRIPT: ScriptFacts = { runs: [], finished: 0, state: "null", begun: null };

/** Converts a status into the event that it stands for. */
function eventOf(body: z.output<typeof statusSchema>): Readonly<Record<string, unknown>> {
  const { status, run, result, state, total, message = "crashed", stats } = body;
  const measured = stats === undefined ? {} : { stats };
  if (status === "done")
    return run === undefined
      ? { kind: "receipt", status, result, ...(total === undefined ? {} : { total }), ...measured }
      : { kind: "run_finished", run, state, ...measured };
  if (status === "crashed")
    return run === undefined
      ? { kind: "receipt", status, error: { name: "Crashed", message }, ...measured }
      : { kind: "run_crashed", run, message, ...measured };
  return status === "started" && run !== undefined ? { kind: "run_started", run } : { kind: status };
}

function verdictAnswer(answer: Rejection | EventsAnswer, attempt: AttemptRecord) {
  if (isRejection(answer)) return answer;
  const refused = answer.refused?.[attempt.id];
  if (refused !== undefined) {
    const { n: _, ...why } = refused;
    return { kind: "rejection", ...why } as Rejection;
  }
  // Every attempt in a request gets a verdict, so the verdict cannot be missing.
  const verdict = answer.verdicts[attempt.id] as EventsAnswer["verdicts"][string];
  if (verdict === "not_owner")
    return reject("not_owner", "another node owns the execution by now", {
      hint: "send the same request again",
    });
  return json({ attempt: attempt.id, verdict });
}

export const attemptRoutes = [...readRoutes, ...reportRoutes];
