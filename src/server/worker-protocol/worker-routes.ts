/** The routes of the worker protocol: `workers`, `attempts` and `scaling`. */
import type { ServerResponse } from "node:http";
import { z } from "@hono/zod-openapi";
import {
  BRIEF_HEADER,
  CLAIM_HEADER,
  CLAIM_ID_HEADER,
  EVENTS_BYTES_MAX,
  type EventsAnswer,
  KEEP_ALIVE_HEADER,
  MEMORY_HEADER,
  WAIT_MS_MAX,
} from "../../protocol/worker-wire.ts";
import { isRejection, reject } from "../../std/rejection.ts";
import { keepAlive } from "../http/send-answer.ts";
import { type Answer, type Ask, json, routesOver } from "../route.ts";
import {
  claimedSchema,
  claimSchema,
  drainedSchema,
  eventsAnswerSchema,
  eventsSchema,
  heartbeatAnswerSchema,
  heartbeatSchema,
  registeredSchema,
  registrationSchema,
  scalingSchema,
  workersSchema,
} from "../schemas/worker.ts";
import { attemptRoutes } from "./attempt-routes.ts";
import { WORKER_PATTERN } from "./registration.ts";
import type { ClaimAnswer } from "./worker-session.ts";
import type { WorkerSessions } from "./worker-sessions.ts";
import { scalingOf } from "./worker-views.ts";

const params = z.object({ id: z.string().regex(WORKER_PATTERN) });
const CLAIM_ID = /^[\w.-]{1,64}$/;
/** The most keys in a body with events or heartbeats, which have many fields. */
const KEYS_MAX = 1_000_000;
/** The largest body with events: the state of a script may be large, and is sent in one event. */
const BYTES_MAX = 4 * EVENTS_BYTES_MAX;

const BRIEF_CLAIM =
  "`1`: tasks without a history come in `batches`, which `work` leaves out; an older server ignores it";
const BRIEF_EVENTS =
  "`1`: attempts whose events are all stored and accepted are left out of the answer, and `rest` says so; an older server ignores it";

const route = routesOver<WorkerSessions>("workers");

const sessionRoutes = [
  route({
    id: "registerWorker",
    request: "POST /v1/workers",
    summary: "Register a worker, or register it again",
    access: "worker",
    body: registrationSchema,
    answers: { 200: { description: "it is registered", schema: registeredSchema } },
    handle({ body, incoming, caller }, sessions) {
      const registered = sessions.register(body, incoming.socket.remoteAddress ?? null, caller.project);
      return isRejection(registered) ? registered : json(registered);
    },
  }),
  route({
    id: "claimWork",
    request: "POST /v1/workers/{id}/claim",
    summary: "Claim work (long poll)",
    description: `Answers as soon as there is work, something to cancel, or after \`waitMs\` (at most ${WAIT_MS_MAX}).`,
    access: "worker",
    params,
    body: claimSchema,
    headers: {
      [CLAIM_ID_HEADER]:
        "an id of this claim, up to 64 letters, digits, `.`, `_` and `-`: repeat a failed claim with the same id, and the server returns the work of the lost answer to its queue at once, so that it can be granted again. Every other claim needs a new id",
      [BRIEF_HEADER]: BRIEF_CLAIM,
      [KEEP_ALIVE_HEADER]:
        "an interval in milliseconds: while the claim waits, the server sends a space ahead of the JSON at this interval, so that the worker notices a dead connection",
    },
    timeMs: null,
    answers: { 200: { description: "work, perhaps none", schema: claimedSchema } },
    refusals: ["not_ready"],
    handle: (ask, sessions) => claim(sessions, ask),
  }),
  route({
    id: "sendWorkerEvents",
    request: "POST /v1/workers/{id}/events",
    summary: "Send events of attempts",
    description:
      "Events are numbered per attempt from 1. The answer comes after all new events are committed.",
    access: "worker",
    params,
    body: eventsSchema,
    bodyBytesMax: BYTES_MAX,
    bodyKeysMax: KEYS_MAX,
    headers: {
      [BRIEF_HEADER]: BRIEF_EVENTS,
      [CLAIM_HEADER]:
        "only with a brief answer: how many attempts the worker claims in the same request. `claimed` has the work that is there after the commit of the events, in the form of a claim's answer; it does not wait for more",
      [CLAIM_ID_HEADER]: "the id of the claim in this request",
    },
    answers: {
      200: {
        description: "the last stored event and the verdict of each attempt",
        schema: eventsAnswerSchema,
      },
    },
    refusals: ["stale_attempt", "not_storable", "not_ready"],
    handle: (ask, sessions) => takeEvents(sessions, ask),
  }),
  route({
    id: "heartbeat",
    request: "POST /v1/workers/{id}/heartbeat",
    summary: "Keep attempts alive",
    access: "worker",
    params,
    body: heartbeatSchema,
    bodyBytesMax: BYTES_MAX,
    bodyKeysMax: KEYS_MAX,
    answers: {
      200: { description: "`continue`, `cancel` or `lost` for each attempt", schema: heartbeatAnswerSchema },
    },
    handle({ params: { id }, body, caller }, sessions) {
      const answer = sessions.refusalFor(id, caller.project) ?? sessions.heartbeat(id, body.tokens);
      return isRejection(answer) ? answer : json(answer);
    },
  }),
];

/** Answers a claim. */
async function claim(
  sessions: WorkerSessions,
  ask: Ask<{ id: string }, unknown, { max: number; waitMs: number }>,
): Promise<Answer<never>> {
  const { body, signal, outgoing } = ask;
  const { id } = ask.params;
  const refusal = sessions.refusalFor(id, ask.caller.project);
  if (refusal !== null) return refusal;
  const memory = ask.header(MEMORY_HEADER);
  if (memory !== undefined && /^\d{1,15}$/.test(memory)) sessions.noteMemory(id, Number(memory));
  const aliveMs = ask.header(KEEP_ALIVE_HEADER) ?? "";
  const endSigns = /^\d{1,5}$/.test(aliveMs)
    ? keepAlive(outgoing, sessions.clock, Number(aliveMs))
    : () => {};
  const isBrief = ask.header(BRIEF_HEADER) === "1";
  const asked = { ...body, isBrief, id: claimIdOf(ask) };
  const claimed = await Promise.resolve(sessions.claim(id, asked, signal)).finally(endSigns);
  if (isRejection(claimed)) return claimed;
  if (claimed === null) return reject("not_ready", "the server closes");
  return claimAnswer(claimed.text, claimed, outgoing);
}

/** Answers events: with the work of a claim, if the worker claims in the same request. */
async function takeEvents(
  sessions: WorkerSessions,
  ask: Ask<{ id: string }, unknown, unknown>,
): Promise<Answer<EventsAnswer>> {
  const { body, caller } = ask;
  const { id } = ask.params;
  const refusal = sessions.refusalFor(id, caller.project);
  if (refusal !== null) return refusal;
  const isBrief = ask.header(BRIEF_HEADER) === "1";
  const max = ask.header(CLAIM_HEADER) ?? "";
  if (!isBrief || !/^\d{1,6}$/.test(max)) {
    const answer = await sessions.events(id, body, isBrief);
    return isRejection(answer) ? answer : json(answer);
  }
  const asked = { max: Number(max), isBrief, id: claimIdOf(ask) };
  const given = await sessions.eventsWithClaim(id, body, { asked, signal: ask.signal });
  return isRejection(given) ? given : claimAnswer(given.text, given.claimed, ask.outgoing);
}

function claimIdOf(ask: Pick<Ask, "header">): string | undefined {
  const id = ask.header(CLAIM_ID_HEADER) ?? "";
  return CLAIM_ID.test(id) ? id : undefined;
}

/** An answer with the work of a claim. If it is not written completely, the work is handed back. */
function claimAnswer(body: string, claimed: ClaimAnswer | null, outgoing: ServerResponse): Answer<never> {
  const close = () => claimed?.ended(outgoing.writableFinished);
  if (outgoing.closed) close();
  else outgoing.once("close", close);
  return { kind: "bytes", status: 200, type: "application/json", body };
}

const viewRoutes = [
  route({
    id: "listWorkers",
    request: "GET /v1/workers",
    summary: "List workers",
    access: "viewer",
    isGlobal: true,
    answers: { 200: { description: "every worker of this node", schema: workersSchema } },
    handle: (_ask, sessions) => json({ data: sessions.list(), next: null }),
  }),
  route({
    id: "drainWorker",
    request: "POST /v1/workers/{id}/drain",
    summary: "Drain a worker",
    description:
      "The worker gets this request with the answer to its next claim. It finishes its tasks, claims no more, and deregisters.",
    access: "operator",
    isGlobal: true,
    params,
    answers: {
      202: {
        description: "the worker is asked to leave, by the answer to its open or next claim",
        schema: drainedSchema,
      },
    },
    audit: "worker.drain",
    handle: ({ params: { id } }, sessions) =>
      sessions.drain(id) ?? json({ worker: id, draining: true }, { status: 202 }),
  }),
  route({
    id: "removeWorker",
    request: "DELETE /v1/workers/{id}",
    summary: "Unregister a worker",
    description: "The worker gets no more tasks; its open attempts end by their own rules.",
    access: "worker",
    params,
    answers: { 204: { description: "it is forgotten" } },
    handle: ({ params: { id }, caller }, sessions) =>
      sessions.refusalFor(id, caller.project) ?? sessions.leave(id) ?? json(null, { status: 204 }),
  }),
  route({
    id: "getScaling",
    request: "GET /v1/scaling",
    summary: "Get figures for scaling workers",
    description: "The figures are made for KEDA's metrics-api scaler; `?use=` limits them to one handler.",
    access: ["viewer", "worker"],
    isGlobal: true,
    query: z.strictObject({ use: z.string().max(150).optional() }),
    answers: { 200: { description: "the figures", schema: scalingSchema } },
    handle: ({ query }, sessions) => json(scalingOf(sessions.engine.overview(), query.use ?? null)),
  }),
];

export const workerRoutes = [...sessionRoutes, ...viewRoutes, ...attemptRoutes];
