/** Routes for schedules, which start executions at given times. */
import { z } from "@hono/zod-openapi";
import type { ScheduleView } from "../../schedule/schedule-store.ts";
import type { Schedules } from "../../schedule/schedules.ts";
import { defined } from "../../std/defined.ts";
import { isRejection, type Rejection, reject } from "../../std/rejection.ts";
import { type Caller, seesProject } from "../auth/caller.ts";
import { type Answer, type Ask, json, NO_CONTENT } from "../route.ts";
import { cursor, limit, name } from "../schemas/paging.ts";
import { scheduleListSchema, scheduleSchema, specSchema } from "../schemas/schedule.ts";
import { projectFor, routesOf } from "./services.ts";

const route = routesOf("schedules");
const params = z.strictObject({ id: z.string().min(1).max(100) });

const runSchema = z.object({ execution: z.string() });
const dueTimes = z.number().int().nonnegative();
const backfilledSchema = z
  .object({
    due: dueTimes.describe("the due times in the range"),
    existed: dueTimes.describe("the due times that had an execution before"),
    missing: dueTimes.describe("the due times that had no execution"),
    started: dueTimes,
  })
  .openapi("Backfilled");
const backfillSchema = z
  .strictObject({
    from: z.number().int().nonnegative().describe("the beginning of the range, in milliseconds since 1970"),
    to: z.number().int().nonnegative().describe("the end of the range, which must be in the past"),
    dryRun: z.boolean().default(false).describe("only list the due times, and start nothing"),
  })
  .openapi("Backfill", { example: { from: 1_794_700_800_000, to: 1_794_787_200_000, dryRun: true } });

function changeRoute(action: "pause" | "resume", summary: string) {
  return route({
    id: `${action}Schedule`,
    request: `POST /v1/schedules/{id}/${action}`,
    summary,
    access: "operator",
    params,
    answers: { 200: { description: "the schedule", schema: scheduleSchema } },
    audit: `schedule.${action}`,
    handle: (ask, { schedules }) =>
      withSchedule(schedules, ask, async ({ id }) => {
        const changed = await schedules[action](id);
        return isRejection(changed) ? changed : json(changed);
      }),
  });
}

/** Runs an action on a schedule that the caller may see; for other callers the schedule does not exist. */
async function withSchedule<T>(
  schedules: Schedules,
  ask: Pick<Ask<z.output<typeof params>>, "params" | "caller" | "target">,
  run: (schedule: ScheduleView) => Promise<Answer<T>>,
): Promise<Answer<T>> {
  const { id } = ask.params;
  const found = await schedules.get(id);
  if (isRejection(found))
    return isDamaged(found) && ask.caller.project !== null
      ? reject("not_found", `there is no schedule "${id}"`)
      : found;
  if (!seesProject(ask.caller, found.project)) return reject("not_found", `there is no schedule "${id}"`);
  ask.target(id, found.project);
  return run(found);
}

async function removeSchedule(
  schedules: Schedules,
  ask: Ask<z.output<typeof params>>,
): Promise<Answer<null>> {
  const remove = async ({ id }: { readonly id: string }): Promise<Answer<null>> =>
    (await schedules.remove(id)) ?? NO_CONTENT;
  const answer = await withSchedule(schedules, ask, remove);
  // The project of a damaged schedule is unknown, so only callers that are bound to no project may delete it.
  if (!isDamaged(answer) || ask.caller.project !== null) return answer;
  ask.target(ask.params.id);
  return remove(ask.params);
}

function isDamaged(answer: Answer): boolean {
  return isRejection(answer) && answer.code === "wrong_status";
}

/**
 * The body of the request, with the caller's own project if the caller is bound to one. It is wrapped because it may look like
 * a rejection.
 */
async function ownSpec(
  schedules: Schedules,
  caller: Caller,
  spec: z.output<typeof specSchema>,
): Promise<{ readonly kind: "spec"; readonly value: unknown } | Rejection> {
  const own = caller.project;
  if (own === null) return { kind: "spec", value: spec };
  if (spec.project !== undefined && spec.project !== own)
    return reject("forbidden", `${caller.name} is bound to the project "${own}"`, { path: "project" });
  const before = typeof spec.id === "string" ? await schedules.get(spec.id) : null;
  if (before !== null && (isRejection(before) ? isDamaged(before) : before.project !== own))
    return reject("conflict", "a schedule with this id exists", { path: "id" });
  return { kind: "spec", value: { ...spec, project: own } };
}

export const scheduleRoutes = [
  route({
    id: "putSchedule",
    request: "POST /v1/schedules",
    summary: "Create a schedule, or change the schedule with the same id",
    access: "operator",
    body: specSchema,
    answers: {
      201: { description: "it is created", schema: scheduleSchema },
      200: { description: "it is changed", schema: scheduleSchema },
    },
    refusals: ["not_found", "conflict", "not_storable"],
    audit: "schedule.put",
    async handle(ask, { schedules }) {
      const spec = await ownSpec(schedules, ask.caller, ask.body);
      if (isRejection(spec)) return spec;
      const put = await schedules.put(spec.value);
      if (isRejection(put)) return put;
      ask.target(put.schedule.id, put.schedule.project);
      return json(put.schedule, { status: put.created ? 201 : 200 });
    },
  }),
  route({
    id: "listSchedules",
    request: "GET /v1/schedules",
    summary: "List schedules, in the order of their ids",
    access: "viewer",
    query: z.strictObject({
      project: name.optional(),
      workflow: name.optional(),
      q: z
        .string()
        .max(200)
        .optional()
        .describe(
          "words that the id, the workflow, the times or the state (`paused`, `failing`) of a schedule contain",
        ),
      limit: limit(),
      cursor,
    }),
    answers: { 200: { description: "a page", schema: scheduleListSchema } },
    async handle(
      { query: { project: wanted, workflow, q, limit: max, cursor: page }, caller },
      { schedules },
    ) {
      const project = projectFor(caller, wanted);
      if (project === null) return json({ data: [], next: null });
      const found = await schedules.list({
        ...project,
        limit: max,
        ...defined({ workflow, q }),
        ...(page === undefined ? {} : { cursor: page }),
      });
      return isRejection(found) ? found : json(found);
    },
  }),
  route({
    id: "getSchedule",
    request: "GET /v1/schedules/{id}",
    summary: "Get a schedule, with its next due times",
    access: "viewer",
    params,
    answers: { 200: { description: "the schedule", schema: scheduleSchema } },
    handle: (ask, { schedules }) => withSchedule(schedules, ask, async (schedule) => json(schedule)),
  }),
  route({
    id: "deleteSchedule",
    request: "DELETE /v1/schedules/{id}",
    summary: "Delete a schedule; executions that it started continue",
    access: "operator",
    params,
    answers: { 204: { description: "it is gone" } },
    audit: "schedule.delete",
    handle: (ask, { schedules }) => removeSchedule(schedules, ask),
  }),
  changeRoute("pause", "Pause a schedule: it starts nothing until it is resumed"),
  changeRoute("resume", "Resume a schedule; due times that passed meanwhile do not start executions"),
  route({
    id: "runSchedule",
    request: "POST /v1/schedules/{id}/run",
    summary: "Start an execution of a schedule now",
    access: "operator",
    params,
    headers: { "Idempotency-Key": "one execution is started for each key and schedule" },
    answers: {
      201: { description: "it is started", schema: runSchema },
      200: { description: "the execution was started under this key before", schema: runSchema },
    },
    refusals: ["conflict"],
    audit: "schedule.run",
    handle: (ask, { schedules }) =>
      withSchedule(schedules, ask, async ({ id }) => {
        const started = await schedules.runNow(id, ask.idempotencyKey);
        if (isRejection(started)) return started;
        const { execution, existed } = started;
        return json({ execution }, { status: existed ? 200 : 201 });
      }),
  }),
  route({
    id: "backfillSchedule",
    request: "POST /v1/schedules/{id}/backfill",
    summary: "Start an execution for each due time of a past range that has no execution",
    description:
      "At most 500 due times. The executions have the ids that the due times would have given them, so a repeat starts nothing twice. They start at once, whatever `overlap` says.",
    access: "operator",
    params,
    body: backfillSchema,
    answers: { 200: { description: "how many", schema: backfilledSchema } },
    audit: "schedule.backfill",
    handle: (ask, { schedules }) =>
      withSchedule(schedules, ask, async ({ id }) => {
        const done = await schedules.backfill(id, ask.body);
        return isRejection(done) ? done : json(done);
      }),
  }),
];
