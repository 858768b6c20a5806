/** Routes for talking to a running execution: the values that it publishes, its streams, and updates. */
import { z } from "@hono/zod-openapi";
import { AnswerWatch, sendUpdate } from "../../engine/update-answers.ts";
import { notAnswered } from "../../protocol/update-answer.ts";
import { defined } from "../../std/defined.ts";
import { isRejection, reject } from "../../std/rejection.ts";
import { type Answer, json } from "../route.ts";
import { wait } from "../schemas/execution.ts";
import {
  cursor,
  executionParams,
  integer,
  limit,
  name,
  pageOf,
  phaseName,
  runTimeName,
} from "../schemas/paging.ts";
import {
  pieceSchema,
  publishedSchema,
  streamMarkSchema,
  type Updated,
  updatedSchema,
  updateSchema,
} from "../schemas/stream.ts";
import { streamMarks, streamPieces } from "../streams/stream-source.ts";
import { answerLog, follow, STREAM, STREAM_HEADERS } from "./events.ts";
import { inspectFor, routesOf } from "./services.ts";

const route = routesOf("executions");

/** How long a request waits for the answer to its update, by default. */
const WAIT_MS = 30_000;

const streamQuery = z.strictObject({
  phase: phaseName.optional(),
  handler: name.optional(),
  task: integer(0, 10_000_000, "the task's number").optional(),
  cursor,
  limit: limit(200),
  follow,
});

const streamRoute = route({
  id: "readStream",
  request: "GET /v1/executions/{id}/streams/{name}",
  summary: "Read the chunks of a stream of an execution, as a page or as a stream of events",
  description:
    "Returns pieces of consecutive chunks in the order in which they were stored, from the first one on. A stream of events goes on while chunks are written, and ends with the event `end` after the writer has ended the stream, or with the execution, unless `follow=true`. A name to which nothing was written gives an empty page.",
  access: "viewer",
  scope: "read",
  params: executionParams.extend({ name: runTimeName("the name of the stream") }),
  query: streamQuery,
  headers: STREAM_HEADERS,
  answers: {
    200: { description: "pieces in order", schema: pageOf(pieceSchema, "pieces"), types: [STREAM] },
  },
  async handle(ask, services) {
    const found = await inspectFor(services, ask.caller, ask.params.id);
    if (isRejection(found)) return found;
    const { cursor: page, limit: max, follow: goesOn, ...place } = ask.query;
    const filter = { stream: ask.params.name, ...place };
    return answerLog(ask, services, {
      ...{ execution: found.view.id, page, max, follow: goesOn },
      key: `stream ${JSON.stringify(filter)}`,
      items: streamPieces(filter),
    });
  },
});

const streamsRoute = route({
  id: "listStreams",
  request: "GET /v1/executions/{id}/streams",
  summary: "List where the streams of an execution begin and end, as a page or as a stream of events",
  description:
    "The list is in the order of storing. A stream that several tasks or steps write, or that is written again, is listed once for each writer. A stream of events ends with the execution unless `follow=true`.",
  access: "viewer",
  scope: "read",
  params: executionParams,
  query: z.strictObject({ cursor, limit: limit(200), follow }),
  headers: STREAM_HEADERS,
  answers: {
    200: {
      description: "the beginnings and ends of streams, in their order",
      schema: pageOf(streamMarkSchema, "marks"),
      types: [STREAM],
    },
  },
  async handle(ask, services) {
    const found = await inspectFor(services, ask.caller, ask.params.id);
    if (isRejection(found)) return found;
    const { cursor: page, limit: max, follow: goesOn } = ask.query;
    return answerLog(ask, services, {
      ...{ execution: found.view.id, page, max, follow: goesOn },
      key: "streams",
      items: streamMarks,
    });
  },
});

const publishedRoute = route({
  id: "readPublished",
  request: "GET /v1/executions/{id}/published",
  summary: "Read the values that an execution has published",
  description:
    "Returns the last value of each key, as the journal has it. Changes are events of the kind `workflow.published`.",
  access: "viewer",
  scope: "read",
  params: executionParams,
  answers: { 200: { description: "the values", schema: publishedSchema } },
  async handle(ask, services) {
    const found = await inspectFor(services, ask.caller, ask.params.id);
    if (isRejection(found)) return found;
    const { id, published = {}, revision } = found.view;
    return json({ execution: id, published, revision });
  },
});

const updateRoute = route({
  id: "updateExecution",
  request: "POST /v1/executions/{id}/updates/{name}",
  summary: "Send an update, and wait for its answer",
  description:
    "An update is a signal that the code of the execution answers. It is durable before the request waits. If there is no answer in time, the request is answered with 504 and the code `timeout`; a repeat with the same id waits again. If the code refuses the update, the answer has `error`. If the execution has ended, or ends without an answer, the update is refused with the code `gone`.",
  access: "operator",
  scope: "update",
  params: executionParams.extend({ name: runTimeName("the name of the update") }),
  query: z.strictObject({
    wait: wait("wait for the answer for up to this time, at most 60s; 30s by default"),
  }),
  body: updateSchema,
  isBodyOptional: true,
  headers: { "Idempotency-Key": "the id of the update: a repeat gets the same answer" },
  answers: { 200: { description: "the answer of the code to the update", schema: updatedSchema } },
  refusals: ["gone", "timeout", "not_ready", "not_storable"],
  audit: "execution.update",
  async handle(ask, services) {
    const { id: execution, name: update } = ask.params;
    const { wait: waitMs = WAIT_MS } = ask.query;
    const found = await inspectFor(services, ask.caller, execution);
    if (isRejection(found)) return found;
    const watch = new AnswerWatch(services);
    const id = ask.body?.id ?? ask.idempotencyKey ?? undefined;
    const { data } = ask.body ?? {};
    const sent = await sendUpdate(services, execution, { name: update, data, ...defined({ id }) });
    if (isRejection(sent)) {
      watch.stop();
      return sent;
    }
    ask.target(`${execution} ${update}`, found.view.project);
    const answer = async (): Promise<Answer<Updated>> => {
      let isLate = false;
      const cancel = services.clock.after(waitMs, () => {
        isLate = true;
        watch.stop();
      });
      const stopWatching = ask.whenOver(() => watch.stop());
      const got = await watch.answerTo(sent);
      cancel();
      stopWatching();
      watch.stop();
      if (got === "stopped")
        return isLate
          ? notAnswered(sent, waitMs)
          : reject("not_ready", "the server closes", { hint: "send the update again with the same id" });
      if (isRejection(got)) return got;
      const { id: sentId } = sent;
      return json({
        ...{ execution, update, id: sentId },
        ...("error" in got ? { error: got.error } : { answer: got.value }),
      });
    };
    return { kind: "waits", answer };
  },
});

export const streamRoutes = [streamsRoute, streamRoute, publishedRoute, updateRoute];
