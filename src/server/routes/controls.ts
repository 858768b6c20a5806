/** Routes that control executions: cancel, pause, resume, retry, signal, and the same in bulk. */

import { z } from "@hono/zod-openapi";
import { dropDamaged } from "../../engine/cache/damages.ts";
import { signalMessage } from "../../engine/signal-with-start.ts";
import { exactly } from "../../kernel/definition/names.ts";
import type { ControlMessage } from "../../kernel/message.ts";
import type { ExecutionView } from "../../kernel/view.ts";
import { checkList, checkSignalStart } from "../../protocol/check-request.ts";
import type { MoveTarget, SignalState } from "../../sdk/handle.ts";
import { defined } from "../../std/defined.ts";
import type { Json } from "../../std/json.ts";
import { isRejection, type Rejection, RondoError, reject } from "../../std/rejection.ts";
import { listOrSearch } from "../../store/search-heads.ts";
import type { Caller } from "../auth/caller.ts";
import { json } from "../route.ts";
import {
  ACTIONS,
  bulkAnswer,
  bulkSchema,
  cancelSchema,
  controlSchema,
  executionSchema,
  moveSchema,
  retriedTasksSchema,
  retryTasksSchema,
  type SignalledStart,
  signalledSchema,
  signalledStartSchema,
  signalSchema,
} from "../schemas/execution.ts";
import { executionParams } from "../schemas/paging.ts";
import { refusedSignal } from "../services/start-executions.ts";
import { startOptionsFor } from "./executions.ts";
import { idTaken, inspectFor, projectFor, routesOf, type Services } from "./services.ts";

const route = routesOf("executions");
/** The most executions that one bulk request changes at the same time. */
const BULK_TOGETHER = 50;

const SUMMARIES: Readonly<Record<ControlMessage["kind"], string>> = {
  cancel: "Cancel an execution: running attempts are told to stop, then it cleans up and ends",
  pause: "Pause an execution: no further tasks start until it is resumed",
  resume: "Resume a paused execution",
  retry: "Retry a failed or cancelled execution: its unfinished tasks run again",
};

const dropRoute = route({
  id: "dropExecution",
  request: "POST /v1/executions/{id}/drop",
  summary: "Delete a damaged execution",
  description:
    "Only a damaged execution can be dropped. A parent that waits for it is told that it has failed.",
  access: "operator",
  params: executionParams,
  answers: { 200: { description: "it is gone", schema: z.object({ dropped: z.string() }) } },
  refusals: ["wrong_status"],
  audit: "execution.drop",
  async handle(ask, services) {
    const found = await inspectFor(services, ask.caller, ask.params.id);
    if (isRejection(found)) return found;
    const refused = await dropDamaged(services, found.view);
    if (refused !== null) return refused;
    ask.target(found.view.id, found.view.project);
    return json({ dropped: found.view.id });
  },
});

function controlRoute(action: ControlMessage["kind"]) {
  return route({
    id: `${action}Execution`,
    request: `POST /v1/executions/{id}/${action}`,
    summary: SUMMARIES[action],
    access: "operator",
    ...(action === "cancel" ? { scope: "cancel" } : {}),
    params: executionParams,
    body: action === "cancel" ? cancelSchema : controlSchema,
    isBodyOptional: true,
    headers: { "Idempotency-Key": "the id of the request: a repeat with the same id changes nothing" },
    answers: { 200: { description: "the execution after the change", schema: executionSchema } },
    refusals: ["wrong_status"],
    audit: `execution.${action}`,
    async handle(ask, services) {
      const { id } = ask.params;
      const { by, reason, id: key = ask.idempotencyKey } = ask.body;
      const force = "force" in ask.body && ask.body.force === true;
      if (force && ask.caller.grant !== undefined)
        return reject("forbidden", "force: a token for one execution cannot skip the clean-up", {
          path: "force",
        });
      const view = await controlFor(services, ask.caller, { id, action, key, by, reason, force });
      if (isRejection(view)) return view;
      ask.target(id, view.project);
      return json(view);
    },
  });
}

const moveRoute = route({
  id: "moveExecution",
  request: "POST /v1/executions/{id}/move",
  summary: "Move an execution to another definition of its workflow",
  description:
    "The visited phases must be the same in the new definition, with the same handlers and the same kinds of tasks. Otherwise the move is refused, and the refusal names the differences. Running attempts continue.",
  access: "operator",
  params: executionParams,
  body: moveSchema,
  headers: { "Idempotency-Key": "the id of the request: a repeat with the same id changes nothing" },
  answers: { 200: { description: "the execution after the move", schema: executionSchema } },
  refusals: ["wrong_status", "conflict"],
  audit: "execution.move",
  async handle(ask, services) {
    const { id } = ask.params;
    const found = await inspectFor(services, ask.caller, id);
    if (isRejection(found)) return found;
    const { version, hash, dryRun, reason, by = ask.caller.name } = ask.body;
    const messageId = ask.body.id ?? ask.idempotencyKey ?? undefined;
    const to = defined({ version, hash }) as MoveTarget;
    await services.rondo.execution(id).move(to, { by, ...defined({ dryRun, reason, id: messageId }) });
    ask.target(`${id} ${version ?? hash}`, found.view.project);
    const after = await inspectFor(services, ask.caller, id);
    return isRejection(after) ? after : json(after.view);
  },
});

const retryTasksRoute = route({
  id: "retryTasks",
  request: "POST /v1/executions/{id}/tasks/retry",
  summary: "Retry chosen tasks of an execution that are not done",
  description:
    "In a running phase, failed tasks can be retried. In an execution that has ended without a clean-up, only the chosen tasks run again, and the phases after theirs do not. If the execution was done, `returns` runs again, and its output replaces the old one. If the execution failed or was cancelled in the phase of the tasks, it continues once that phase is done.",
  access: "operator",
  params: executionParams,
  body: retryTasksSchema,
  headers: { "Idempotency-Key": "the id of the request: a repeat with the same id changes nothing" },
  answers: { 200: { description: "the number of tasks", schema: retriedTasksSchema } },
  refusals: ["wrong_status"],
  audit: "execution.retry-tasks",
  async handle(ask, services) {
    const { id } = ask.params;
    const found = await inspectFor(services, ask.caller, id);
    if (isRejection(found)) return found;
    const { phase, visit, handler, numbers, error, dryRun, by = ask.caller.name } = ask.body;
    const choice = defined({ phase, visit, handler, numbers, error });
    const messageId = ask.body.id ?? ask.idempotencyKey ?? undefined;
    const retried = await services.rondo
      .execution(id)
      .retryTasks(choice, { by, ...defined({ dryRun, id: messageId }) });
    ask.target(`${id} ${phase ?? error}`, found.view.project);
    return json(retried);
  },
});

const signalRoute = route({
  id: "signalExecution",
  request: "POST /v1/executions/{id}/signals",
  summary: "Send a signal",
  description:
    "Signals are kept in order until a wait takes them, at most 1,000. The payload is checked by the schema of the wait. With `start`, an execution that does not exist is started with the signal, in one commit. After the end of the execution, a signal is refused with the code `gone`.",
  access: "operator",
  scope: "signal",
  params: executionParams,
  body: signalSchema,
  headers: { "Idempotency-Key": "the id of the signal: a repeat with the same id changes nothing" },
  answers: {
    200: {
      description: "the signal is stored",
      schema: signalledSchema.extend(signalledStartSchema.partial().shape),
    },
    201: { description: "the execution is started with the signal", schema: signalledStartSchema },
  },
  refusals: ["gone", "conflict", "not_storable"],
  audit: "execution.signal",
  async handle(ask, services) {
    const { id } = ask.params;
    const { name: signal, data, start } = ask.body;
    const messageId = ask.body.id ?? ask.idempotencyKey ?? undefined;
    if (start !== undefined && ask.caller.grant !== undefined)
      return reject("forbidden", "start: not allowed with a token for one execution", { path: "start" });
    if (start !== undefined) {
      const { caller, trace } = ask;
      const request = { id, key: messageId ?? null, signal, data, start, trace };
      const sent = await signalStartFor(services, caller, request);
      if (isRejection(sent)) return sent;
      ask.target(`${sent.answer.execution} ${signal}`, sent.project);
      return json(sent.answer, { status: sent.answer.started ? 201 : 200 });
    }
    const sent = await signalFor(services, ask.caller, { id, key: messageId ?? null, signal, data });
    if (isRejection(sent)) return sent;
    ask.target(`${id} ${signal}`, sent.view.project);
    return json({ execution: id, signal, state: sent.state });
  },
});

/** A change of an execution. */
interface Change {
  readonly id: string;
  /** The id of the request, by which a repeat is recognised; null if the request has none. */
  readonly key: string | null;
  /** If given, only an execution of this project is changed. */
  readonly project?: string | undefined;
}

/** Changes an execution for a caller. Returns its view after the change. */
export async function controlFor(
  services: Services,
  caller: Caller,
  change: Change & {
    readonly action: ControlMessage["kind"];
    readonly by?: string | undefined;
    readonly reason?: string | undefined;
    readonly force?: boolean;
  },
): Promise<ExecutionView | Rejection> {
  const { id, key, action, by = caller.name, reason, force = false } = change;
  const found = await findFor(services, caller, change);
  if (isRejection(found)) return found;
  await services.rondo.execution(id)[action]({
    by,
    ...defined({ reason, id: key ?? undefined }),
    ...(force ? { force } : {}),
  });
  const after = await inspectFor(services, caller, id);
  return isRejection(after) ? after : after.view;
}

/** Sends a signal for a caller. Returns the view of the execution before the signal, and whether a wait took the signal. */
export async function signalFor(
  services: Services,
  caller: Caller,
  change: Change & { readonly signal: string; readonly data: unknown },
): Promise<{ readonly view: ExecutionView; readonly state: SignalState } | Rejection> {
  const { id, key, signal, data } = change;
  const found = await findFor(services, caller, change);
  if (isRejection(found)) return found;
  const known = await services.definitions.byHash(found.workflowHash);
  const wrong = isRejection(known) ? null : await refusedSignal(known, signal, (data ?? null) as Json);
  if (wrong !== null) return wrong;
  const state = await services.rondo.execution(id).signal(signal, data, key === null ? {} : { id: key });
  return { view: found, state };
}

/** Signals an execution for a caller, or starts it with the signal. */
export async function signalStartFor(
  services: Services,
  caller: Caller,
  request: Omit<Change, "project"> & {
    readonly signal: string;
    readonly data: unknown;
    readonly start: NonNullable<z.output<typeof signalSchema>["start"]>;
    readonly trace: string | null;
  },
): Promise<{ readonly answer: SignalledStart; readonly project: string } | Rejection> {
  const { id, key, signal, data, trace } = request;
  const { workflow, input, ...options } = request.start;
  const given = startOptionsFor({ ...options, id }, caller);
  const checked = isRejection(given) ? given : checkSignalStart(given);
  if (isRejection(checked)) return checked;
  const message = signalMessage(services, { name: signal, data, ...defined({ id: key ?? undefined }) });
  if (isRejection(message)) return message;
  const answer = await services.starts.signal({ ...checked, workflow, input, trace }, message);
  if (isRejection(answer)) return answer.code === "conflict" ? idTaken(caller, answer) : answer;
  return { answer, project: checked.project };
}

async function findFor(
  services: Services,
  caller: Caller,
  { id, project }: Change,
): Promise<ExecutionView | Rejection> {
  const found = await inspectFor(services, caller, id);
  if (isRejection(found)) return found;
  const isMeant = project === undefined || project === found.view.project;
  return isMeant
    ? found.view
    : reject("not_found", `there is no execution ${id} in the project "${project}"`);
}

const bulkRoute = route({
  id: "changeExecutions",
  request: "POST /v1/executions/bulk",
  summary: "Cancel, pause, resume, retry or move all executions that match a filter",
  description:
    "Changes at most 1,000 executions in one call, the newest first; send `next` as `cursor` to change further ones. Executions whose status does not allow the change are listed as refused.",
  access: "operator",
  body: bulkSchema,
  answers: { 200: { description: "what was done", schema: bulkAnswer } },
  audit: "executions.bulk",
  async handle(ask, services) {
    const { action, filter, dryRun } = ask.body;
    const answer = await changeMany(services, ask.caller, ask.body);
    ask.target(`${dryRun ? "would " : ""}${action} ${JSON.stringify(filter)}`);
    return answer;
  },
});

async function changeMany(services: Services, caller: Caller, body: z.output<typeof bulkSchema>) {
  const { action, filter, dryRun, limit, cursor } = body;
  const project = projectFor(caller, filter.project);
  if (project === null) return json({ matched: 0, changed: 0, ids: [], refused: [], next: null });
  const { from: since, to: until, q: search, ...listed } = filter;
  const checked = checkList({ ...listed, ...project, limit, ...defined({ since, until, search, cursor }) });
  if (isRejection(checked)) return checked;
  const found = await listOrSearch(services.store, checked);
  const { heads } = found;
  const refused: { id: string; code: string; message: string }[] = [];
  const ids: string[] = [];
  for (let from = 0; from < heads.length; from += BULK_TOGETHER) {
    const together = heads.slice(from, from + BULK_TOGETHER).map(async ({ id }) => {
      const isUnchecked = dryRun && action !== "move";
      const wrong = isUnchecked ? null : await change(services, id, { ...body, by: caller.name });
      if (wrong === null) ids.push(id);
      else refused.push({ id, code: wrong.code, message: wrong.message });
    });
    await Promise.all(together);
  }
  const next = found.next === null ? null : String(found.next);
  return json({ matched: heads.length, changed: dryRun ? 0 : ids.length, ids, refused, next });
}

async function change(
  { rondo }: Services,
  id: string,
  body: Pick<z.output<typeof bulkSchema>, "action" | "reason" | "version" | "hash" | "dryRun"> & {
    by: string;
  },
): Promise<Rejection | null> {
  const { action, by, reason, version, hash, dryRun } = body;
  const execution = rondo.execution(exactly(id));
  const given = { by, ...defined({ reason }) };
  try {
    if (action === "move")
      await execution.move(defined({ version, hash }) as MoveTarget, { ...given, dryRun });
    else await execution[action](given);
    return null;
  } catch (thrown) {
    if (thrown instanceof RondoError) return reject(thrown.code, thrown.message);
    throw thrown;
  }
}

export const controlRoutes = [
  ...ACTIONS.map((action) => controlRoute(action)),
  retryTasksRoute,
  moveRoute,
  signalRoute,
  dropRoute,
  bulkRoute,
];
