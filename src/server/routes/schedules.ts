/** Schedules: executions that start by the clock. */
import { z } from "@hono/zod-openapi";
import { isRejection, type Rejection, reject } from "../../std/rejection.ts";
import { type Caller, seesProject } from "../auth/caller.ts";
import { type Answer, type Ask, json, type Route, route } from "../route.ts";
import type { SchedulePort, ScheduleShown } from "../schedule-port.ts";
import { anyJson, cursor, limit, name, pageOf } from "../schemas/paging.ts";
import { projectFor, type Services } from "./services.ts";

const TAG = "schedules";
const params = z.strictObject({ id: z.string().min(1).max(100) });

const CRON_FORMS =
  "five fields (minute, hour, day, month, weekday), six with seconds first, or @hourly, @daily, @weekly, @monthly or @yearly, which are stored as their five fields";

const refusalSchema = z.object({ code: z.string(), message: z.string() });

const specSchema = z
  .looseObject({
    id: z.unknown().openapi({ type: "string" }),
    workflow: z.unknown().openapi({ type: "string" }),
    input: anyJson.optional(),
    cron: z.unknown().openapi({ type: "string", description: CRON_FORMS }),
    timeZone: z.unknown().optional().openapi({ type: "string", description: "UTC if left out" }),
    misfire: z
      .unknown()
      .optional()
      .openapi({
        type: "string",
        enum: ["fireOnce", "skip", "all"],
        description:
          "due times that were missed: fireOnce starts one for the latest, skip none, all one for each (at most 1,000)",
      }),
    overlap: z
      .unknown()
      .optional()
      .openapi({
        type: "string",
        enum: ["allow", "skip", "queue"],
        description:
          "a time is due while the last execution is open: allow starts another, skip none, queue one when that has ended (further times are skipped)",
      }),
    project: z.unknown().optional().openapi({ type: "string" }),
    tags: z.unknown().optional().openapi({ type: "object" }),
  })
  .openapi("ScheduleSpec", {
    example: {
      id: "nightly",
      workflow: "thumbnails",
      input: { bucket: "b" },
      cron: "0 6 * * *",
      timeZone: "Europe/Berlin",
    },
  });

const scheduleSchema = z
  .looseObject({
    id: z.string(),
    workflow: z.string(),
    cron: z.string(),
    timeZone: z.string(),
    misfire: z.string(),
    overlap: z.string(),
    project: z.string(),
    next: z.array(z.number()).openapi({ description: "the next due times" }),
    problem: refusalSchema.nullish().openapi({
      description:
        "why a start would be refused now, such as an input that does not fit its workflow any more; null: it would not be. Only where schedules are read",
    }),
    state: z.looseObject({
      paused: z.boolean(),
      lastError: refusalSchema.extend({ due: z.number(), at: z.number() }).nullish().openapi({
        description:
          "why the last due time started nothing: which one, and when it was tried; null: it did start. The schedule goes on with its next time",
      }),
    }),
  })
  .openapi("Schedule");

const scheduleListSchema = pageOf(scheduleSchema, "schedules").extend({
  damaged: z
    .array(z.object({ id: z.string(), damage: z.string(), hint: z.string() }))
    .optional()
    .openapi({
      description:
        "schedules of this page that cannot be read and do not fire: put them again or delete them. Left out if there are none, and where the list is of one project or workflow, since theirs is not known",
    }),
});

const runSchema = z.object({ execution: z.string() });

/** The routes. */
export function scheduleRoutes({ schedules }: Services): Route[] {
  if (schedules === null) return [];
  return [
    ...tableRoutes(schedules),
    changeRoute(schedules, "pause", "Stop firing"),
    changeRoute(schedules, "resume", "Go on; due times that passed meanwhile do not fire"),
    route(
      {
        id: "runSchedule",
        method: "post",
        path: "/v1/schedules/{id}/run",
        tag: TAG,
        summary: "Start an execution now",
        access: "operator",
        params,
        headers: { "Idempotency-Key": "starts once for each key and schedule" },
        answers: {
          201: { description: "it is started", schema: runSchema },
          200: { description: "it was started under this key before", schema: runSchema },
        },
        refusals: ["conflict"],
        audit: "schedule.run",
      },
      (ask) =>
        withSchedule(schedules, ask, async ({ id }) => {
          const started = await schedules.runNow(id, ask.idempotencyKey);
          if (isRejection(started)) return started;
          const { execution, existed } = started;
          return json({ execution }, { status: existed ? 200 : 201 });
        }),
    ),
  ];
}

function tableRoutes(schedules: SchedulePort): Route[] {
  return [
    route(
      {
        id: "putSchedule",
        method: "post",
        path: "/v1/schedules",
        tag: TAG,
        summary: "Create a schedule, or change the one with its id",
        access: "operator",
        body: specSchema,
        answers: {
          201: { description: "it is created", schema: scheduleSchema },
          200: { description: "it is changed", schema: scheduleSchema },
        },
        refusals: ["not_found", "conflict", "not_storable"],
        audit: "schedule.put",
      },
      async (ask) => {
        const spec = await ownSpec(schedules, ask.caller, ask.body);
        if (isRejection(spec)) return spec;
        const put = await schedules.put(spec.value);
        if (isRejection(put)) return put;
        ask.target(put.schedule.id, put.schedule.project);
        return json(put.schedule, { status: put.created ? 201 : 200 });
      },
    ),
    route(
      {
        id: "listSchedules",
        method: "get",
        path: "/v1/schedules",
        tag: TAG,
        summary: "List schedules, in the order of their ids",
        access: "viewer",
        query: z.strictObject({
          project: name.optional(),
          workflow: name.optional(),
          limit: limit(),
          cursor,
        }),
        answers: { 200: { description: "a page", schema: scheduleListSchema } },
      },
      async ({ query: { project: wanted, workflow, limit: max, cursor: page }, caller }) => {
        const project = projectFor(caller, wanted);
        if (project === null) return json({ data: [], next: null });
        const found = await schedules.list({
          ...project,
          limit: max,
          ...(workflow === undefined ? {} : { workflow }),
          ...(page === undefined ? {} : { cursor: page }),
        });
        return isRejection(found) ? found : json(found);
      },
    ),
    route(
      {
        id: "getSchedule",
        method: "get",
        path: "/v1/schedules/{id}",
        tag: TAG,
        summary: "One schedule, with its next due times",
        access: "viewer",
        params,
        answers: { 200: { description: "the schedule", schema: scheduleSchema } },
      },
      (ask) => withSchedule(schedules, ask, async (schedule) => json(schedule)),
    ),
    route(
      {
        id: "deleteSchedule",
        method: "delete",
        path: "/v1/schedules/{id}",
        tag: TAG,
        summary: "Forget a schedule; what it started goes on",
        access: "operator",
        params,
        answers: { 204: { description: "it is gone" } },
        audit: "schedule.delete",
      },
      (ask) => removeSchedule(schedules, ask),
    ),
  ];
}

function changeRoute(schedules: SchedulePort, action: "pause" | "resume", summary: string): Route {
  return route(
    {
      id: `${action}Schedule`,
      method: "post",
      path: `/v1/schedules/{id}/${action}`,
      tag: TAG,
      summary,
      access: "operator",
      params,
      answers: { 200: { description: "the schedule", schema: scheduleSchema } },
      audit: `schedule.${action}`,
    },
    (ask) =>
      withSchedule(schedules, ask, async ({ id }) => {
        const changed = await schedules[action](id);
        return isRejection(changed) ? changed : json(changed);
      }),
  );
}

/** Does something with a schedule that the caller may see; to others it does not exist. */
async function withSchedule(
  schedules: SchedulePort,
  ask: Ask<z.output<typeof params>>,
  run: (schedule: ScheduleShown) => Promise<Answer>,
): Promise<Answer> {
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

async function removeSchedule(schedules: SchedulePort, ask: Ask<z.output<typeof params>>): Promise<Answer> {
  const remove = async ({ id }: { readonly id: string }): Promise<Answer> =>
    (await schedules.remove(id)) ?? json(null, { status: 204 });
  const answer = await withSchedule(schedules, ask, remove);
  // Nobody knows the project of a damaged one: callers that are bound to no project may delete it.
  if (!isDamaged(answer) || ask.caller.project !== null) return answer;
  ask.target(ask.params.id);
  return remove(ask.params);
}

function isDamaged(answer: Answer): boolean {
  return isRejection(answer) && answer.code === "wrong_status";
}

/** What a caller wrote, in its own project if it is bound to one; wrapped, since it may look like anything. */
async function ownSpec(
  schedules: SchedulePort,
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
