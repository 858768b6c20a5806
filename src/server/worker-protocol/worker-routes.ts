/** The routes of the worker protocol: `workers`, `attempts` and `scaling`. */
import { z } from "@hono/zod-openapi";
import {
  EVENTS_BYTES_MAX,
  KEEP_ALIVE_HEADER,
  MEMORY_HEADER,
  WAIT_MS_MAX,
} from "../../protocol/worker-wire.ts";
import { isRejection, reject } from "../../std/rejection.ts";
import { keepAlive } from "../http/send-answer.ts";
import { type Answer, type Ask, json, type Route, route } from "../route.ts";
import { attemptRoutes } from "./attempt-routes.ts";
import { WORKER_PATTERN } from "./registration.ts";
import { scalingOf } from "./scaling.ts";
import {
  claimedSchema,
  claimSchema,
  eventsAnswerSchema,
  eventsSchema,
  heartbeatAnswerSchema,
  heartbeatSchema,
  registeredSchema,
  registrationSchema,
  scalingSchema,
  workersSchema,
} from "./wire-schemas.ts";
import type { WorkerSessions } from "./worker-sessions.ts";

const tag = "workers";
const params = z.object({ id: z.string().regex(WORKER_PATTERN) });
/** Events and beats come in bulk: their fields are many. */
const KEYS_MAX = 1_000_000;
/** The state of a script may be large, and comes in one event. */
const BYTES_MAX = 4 * EVENTS_BYTES_MAX;

/** All of them, for the server's table. */
export function workerRoutes(sessions: WorkerSessions): readonly Route[] {
  return [...sessionRoutes(sessions), ...viewRoutes(sessions), ...attemptRoutes(sessions)];
}

function sessionRoutes(sessions: WorkerSessions): readonly Route[] {
  return [
    route(
      {
        id: "registerWorker",
        method: "post",
        path: "/v1/workers",
        tag,
        summary: "Register a worker, or register it again",
        access: "worker",
        body: registrationSchema,
        answers: { 200: { description: "it is registered", schema: registeredSchema } },
      },
      ({ body, incoming, caller }) => {
        const registered = sessions.register(body, incoming.socket.remoteAddress ?? null, caller.project);
        return isRejection(registered) ? registered : json(registered);
      },
    ),
    route(
      {
        id: "claimWork",
        method: "post",
        path: "/v1/workers/{id}/claim",
        tag,
        summary: "Claim work (long poll)",
        description: `Answers as soon as there is work, something to cancel, or after \`waitMs\` (at most ${WAIT_MS_MAX}).`,
        access: "worker",
        params,
        body: claimSchema,
        headers: {
          [KEEP_ALIVE_HEADER]:
            "an interval in milliseconds: while the claim waits, the server sends a space ahead of the JSON at this interval, so that the worker notices a dead connection",
        },
        timeMs: null,
        answers: { 200: { description: "work, perhaps none", schema: claimedSchema } },
        refusals: ["not_ready"],
      },
      (ask) => claim(sessions, ask),
    ),
    route(
      {
        id: "sendWorkerEvents",
        method: "post",
        path: "/v1/workers/{id}/events",
        tag,
        summary: "Say what became of attempts",
        description: "Numbered per attempt from 1. Answered once everything that is new is committed.",
        access: "worker",
        params,
        body: eventsSchema,
        bodyBytesMax: BYTES_MAX,
        bodyKeysMax: KEYS_MAX,
        answers: { 200: { description: "what is stored, and verdicts", schema: eventsAnswerSchema } },
        refusals: ["stale_attempt", "not_storable", "not_ready"],
      },
      async ({ params: { id }, body, caller }) => {
        const answer = sessions.refusalFor(id, caller.project) ?? (await sessions.events(id, body));
        return isRejection(answer) ? answer : json(answer);
      },
    ),
    route(
      {
        id: "heartbeat",
        method: "post",
        path: "/v1/workers/{id}/heartbeat",
        tag,
        summary: "Keep attempts alive",
        access: "worker",
        params,
        body: heartbeatSchema,
        bodyBytesMax: BYTES_MAX,
        bodyKeysMax: KEYS_MAX,
        answers: { 200: { description: "a word on each attempt", schema: heartbeatAnswerSchema } },
      },
      ({ params: { id }, body, caller }) => {
        const answer = sessions.refusalFor(id, caller.project) ?? sessions.heartbeat(id, body.tokens);
        return isRejection(answer) ? answer : json(answer);
      },
    ),
  ];
}

/** Work that was not written to its end is handed back: the client has gone. */
async function claim(
  sessions: WorkerSessions,
  ask: Ask<{ id: string }, unknown, { max: number; waitMs: number }>,
): Promise<Answer> {
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
  const claimed = await Promise.resolve(sessions.claim(id, body, signal)).finally(endSigns);
  if (isRejection(claimed)) return claimed;
  if (claimed === null) return reject("not_ready", "the server closes");
  const close = () => claimed.ended(outgoing.writableFinished);
  if (outgoing.closed) close();
  else outgoing.once("close", close);
  return { kind: "bytes", status: 200, type: "application/json", body: claimed.text };
}

function viewRoutes(sessions: WorkerSessions): readonly Route[] {
  return [
    route(
      {
        id: "listWorkers",
        method: "get",
        path: "/v1/workers",
        tag,
        summary: "List workers",
        access: "viewer",
        isGlobal: true,
        answers: { 200: { description: "every worker of this node", schema: workersSchema } },
      },
      () => json({ data: sessions.list(), next: null }),
    ),
    route(
      {
        id: "drainWorker",
        method: "post",
        path: "/v1/workers/{id}/drain",
        tag,
        summary: "Tell a worker to end",
        description: "Its next claim is told; it ends what it has, takes nothing new, and leaves.",
        access: "operator",
        isGlobal: true,
        params,
        answers: { 202: { description: "it will be told" } },
        audit: "worker.drain",
      },
      ({ params: { id } }) => sessions.drain(id) ?? json({ worker: id, draining: true }, { status: 202 }),
    ),
    route(
      {
        id: "removeWorker",
        method: "delete",
        path: "/v1/workers/{id}",
        tag,
        summary: "Say goodbye as a worker",
        description: "It is not served any more; attempts that it still has end by their own rules.",
        access: "worker",
        params,
        answers: { 204: { description: "it is forgotten" } },
      },
      ({ params: { id }, caller }) =>
        sessions.refusalFor(id, caller.project) ?? sessions.leave(id) ?? json(null, { status: 204 }),
    ),
    route(
      {
        id: "getScaling",
        method: "get",
        path: "/v1/scaling",
        tag,
        summary: "Figures to scale workers by",
        description: "Made for KEDA's metrics-api scaler; `?use=` looks at one handler only.",
        access: ["viewer", "worker"],
        isGlobal: true,
        query: z.strictObject({ use: z.string().max(150).optional() }),
        answers: { 200: { description: "the figures", schema: scalingSchema } },
      },
      ({ query }) => json(scalingOf(sessions.engine.overview(), query.use ?? null)),
    ),
  ];
}
