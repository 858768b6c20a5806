/** Dead letters: tasks that failed for good, and broadcasts that were given up. */

import { z } from "@hono/zod-openapi";
import { UNDELIVERED_FORM } from "../../engine/mailbox/undelivered.ts";
import { exactly } from "../../kernel/definition/names.ts";
import type { PostOpEvent, Recorded } from "../../kernel/event.ts";
import { decodeReadable } from "../../kernel/journal/journal-entry.ts";
import { ENGINE } from "../../kernel/timers.ts";
import { defined } from "../../std/defined.ts";
import type { Json } from "../../std/json.ts";
import { isRejection, type Rejection, reject } from "../../std/rejection.ts";
import { listDocuments } from "../../store/document-form.ts";
import type { StoredDeadLetter } from "../../store/store.ts";
import { type Caller, seesProject } from "../auth/caller.ts";
import { json, NO_CONTENT } from "../route.ts";
import { type DeadLetter, deadLetterSchema, TASKS_SHOWN, undeliveredSchema } from "../schemas/dead-letter.ts";
import { executionSchema } from "../schemas/execution.ts";
import { cursor, executionId, integer, limit, name, PAGE_CHARS, pageOf } from "../schemas/paging.ts";
import { projectFor, routesOf, type Services } from "./services.ts";

const route = routesOf("dead letters");
/** The most dead letters that are read for a page of a group. */
const GROUP_PAGE = 500;
const groupId = z.string().regex(/^[\da-f]{16}$/, "is not the id of a group of dead letters");
const params = z.strictObject({
  id: z
    .string()
    .regex(/^\d{1,15}$/)
    .transform(Number)
    .openapi({ type: "integer" }),
});

const listRoute = route({
  id: "listDeadLetters",
  request: "GET /v1/dead-letters",
  summary: "List dead letters, the newest first",
  description:
    "One dead letter has the tasks that one event settled as failed, or a broadcast of a command's result that was given up. A page with large errors ends early.",
  access: "viewer",
  query: z.strictObject({
    project: name.optional(),
    workflow: name.optional(),
    execution: executionId.optional(),
    group: groupId.optional().openapi({
      description: "only tasks of this group; a page can then be short and still have a `next`",
    }),
    limit: limit(),
    cursor: integer(0, Number.MAX_SAFE_INTEGER, "the `next` value of the previous page").optional(),
  }),
  answers: { 200: { description: "a page", schema: pageOf(deadLetterSchema, "dead letters") } },
  async handle({ query, caller }, services) {
    const { limit: max, cursor: before = null, project: wanted, workflow, execution, group } = query;
    const project = projectFor(caller, wanted);
    if (project === null) return json({ data: [], next: null });
    const filter = { ...project, ...defined({ workflow, execution }) };
    const read = group === undefined ? max : Math.max(max, GROUP_PAGE);
    const letters = await services.store.listDeadLetters(filter, { before, max: read });
    const data: DeadLetter[] = [];
    let chars = 0;
    let last: StoredDeadLetter | null = null;
    for (const letter of letters) {
      if (chars >= PAGE_CHARS || data.length === max) return json({ data, next: String(last?.order) });
      last = letter;
      const tasks =
        group === undefined ? letter.tasks : await services.deadLetterGroups.tasksOf(letter, group);
      if (group !== undefined && tasks.length === 0) continue;
      const shown = await show(services, { ...letter, tasks });
      data.push(shown);
      chars += JSON.stringify(shown).length;
    }
    return json({ data, next: letters.length === read ? String(last?.order) : null });
  },
});

const retryRoute = route({
  id: "retryDeadLetter",
  request: "POST /v1/dead-letters/{id}/retry",
  summary: "Retry the tasks or the broadcast of a dead letter",
  description:
    "If the execution failed or was cancelled, its next round begins, in which all unfinished tasks run again, and its dead letters are removed. If the execution runs or is done, only the tasks of the dead letter run again. For a broadcast, only the broadcast is sent again.",
  access: "operator",
  params,
  headers: { "Idempotency-Key": "the id of the request: a repeat with the same id changes nothing" },
  answers: { 200: { description: "the execution after the change", schema: executionSchema } },
  refusals: ["wrong_status"],
  audit: "dead-letter.retry",
  async handle(ask, services) {
    const letter = await find(services, ask.caller, ask.params.id);
    if (isRejection(letter)) return letter;
    const { execution, project } = letter;
    const by = { by: ask.caller.name, ...(ask.idempotencyKey === null ? {} : { id: ask.idempotencyKey }) };
    const event = (await eventOf(services, letter))?.event;
    const found = await services.engine.inspect(execution);
    if (isRejection(found)) return found;
    const isWhole = ["failed", "cancelled"].includes(found.view.status);
    if (event?.kind === "tasks.settled" && !isWhole) {
      const { phase, visit, handler } = event;
      const choice = { phase, visit, handler, numbers: letter.tasks };
      await services.rondo.execution(exactly(execution)).retryTasks(choice, by);
    } else if (event?.kind !== "postop.failed") await services.rondo.execution(exactly(execution)).retry(by);
    else {
      const { phase, visit, handler, task, step, op, index, receipt } = event;
      const { answer } = await services.engine.send(execution, {
        kind: "postop.retry",
        id: `letter-${letter.order}`,
        ...by,
        op: { phase, visit, handler, task, step, op, index, receipt },
      });
      if (isRejection(answer)) return answer;
      await services.store.dropDeadLetter(letter.order, null);
    }
    ask.target(execution, project);
    const after = await services.engine.inspect(execution);
    return isRejection(after) ? after : json(after.view);
  },
});

const dropRoute = route({
  id: "dropDeadLetter",
  request: "POST /v1/dead-letters/{id}/drop",
  summary: "Drop a dead letter, or some of its tasks, from the list",
  description: "The execution and its journal stay as they are.",
  access: "operator",
  params,
  body: z
    .strictObject({ tasks: z.array(z.number().int().nonnegative()).max(1_000).optional() })
    .openapi({ example: { tasks: [17] } }),
  isBodyOptional: true,
  answers: { 204: { description: "it is gone" } },
  audit: "dead-letter.drop",
  async handle(ask, services) {
    const letter = await find(services, ask.caller, ask.params.id);
    if (isRejection(letter)) return letter;
    await services.store.dropDeadLetter(letter.order, ask.body.tasks ?? null);
    ask.target(`${letter.execution} ${letter.seq}`, letter.project);
    return NO_CONTENT;
  },
});

async function find({ store }: Services, caller: Caller, id: number): Promise<StoredDeadLetter | Rejection> {
  const [letter] = await store.listDeadLetters({}, { before: id + 1, max: 1 });
  return letter?.order === id && seesProject(caller, letter.project)
    ? letter
    : reject("not_found", `there is no dead letter ${id}`);
}

/** Reads the event that made a dead letter. */
async function eventOf(
  { store }: Services,
  { execution, seq }: StoredDeadLetter,
): Promise<Recorded | undefined> {
  const [entry] = await store.readJournal({ execution, from: seq, to: seq, rowsMax: 1 });
  return entry === undefined ? undefined : decodeReadable(entry).find((one) => one.seq === seq);
}

/** A dead letter with the errors of its tasks, or of its post-operation. */
async function show(services: Services, letter: StoredDeadLetter): Promise<DeadLetter> {
  const { order: id, execution, workflow, project, seq } = letter;
  const recorded = await eventOf(services, letter);
  const given = recorded?.event.kind === "postop.failed" ? recorded.event : null;
  const event = recorded?.event.kind === "tasks.settled" ? recorded.event : null;
  const shown = new Set(letter.tasks.slice(0, TASKS_SHOWN));
  const tasks = (event?.tasks ?? []).flatMap((n, i) =>
    event !== null && shown.has(n)
      ? [
          {
            n,
            attempt: event.attempts[i] as number,
            reason: event.reasons[i] ?? null,
            worker: event.workers[i] as string,
            error: JSON.parse(event.payloads[i] ?? "null") as Json,
          },
        ]
      : [],
  );
  return {
    id,
    execution,
    workflow,
    project,
    seq,
    at: recorded?.at ?? null,
    phase: (event ?? given)?.phase ?? null,
    visit: (event ?? given)?.visit ?? 0,
    handler: (event ?? given)?.handler ?? null,
    count: letter.tasks.length,
    tasks: given === null ? tasks : [taskOf(given)],
    postOp: given === null ? null : { step: given.step, op: given.op, target: given.target },
  };
}

/** The task whose result could not be broadcast, with the error of the broadcast. */
function taskOf({ task: n, attempt, op, error }: PostOpEvent): DeadLetter["tasks"][number] {
  return { n, attempt, reason: op, worker: ENGINE, error: JSON.parse(error ?? "null") as Json };
}

const messagesRoute = route({
  id: "listUndelivered",
  request: "GET /v1/dead-letters/messages",
  summary: "List messages between executions whose receiver does not exist, the newest first",
  description: "The messages are kept as long as ended executions.",
  access: "viewer",
  isGlobal: true,
  query: z.strictObject({ limit: limit(), cursor }),
  answers: { 200: { description: "a page", schema: pageOf(undeliveredSchema, "messages") } },
  async handle({ query: { limit: max, cursor: before } }, { store }) {
    const page = await listDocuments(store, UNDELIVERED_FORM, {
      ...{ descending: true, max },
      ...(before === undefined ? {} : { before }),
    });
    const data = page.flatMap((document) => (document.damage === undefined ? [document.value] : []));
    return json({ data, next: page.length === max ? (page.at(-1)?.id ?? null) : null });
  },
});

export const deadLetterRoutes = [listRoute, messagesRoute, retryRoute, dropRoute];
