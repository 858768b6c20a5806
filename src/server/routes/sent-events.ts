/** Routes for events that start, signal and cancel executions, and for signed webhooks that become such events. */
import { z } from "@hono/zod-openapi";
import { whyNotSigned } from "../../commands/post-ops/webhook-secrets.ts";
import { isObject } from "../../std/decode.ts";
import { randomHex } from "../../std/random.ts";
import { isRejection, reject } from "../../std/rejection.ts";
import { readEvent, webhookEvent } from "../../triggers/cloud-event.ts";
import { listEvents } from "../../triggers/event-log.ts";
import type { Caller } from "../auth/caller.ts";
import { readBytes } from "../http/read-body.ts";
import { json } from "../route.ts";
import { cursor, flag, limit, name } from "../schemas/paging.ts";
import { eventListSchema, sentEventSchema } from "../schemas/sent-event.ts";
import { routesOf } from "./services.ts";

const route = routesOf("events");

const WEBHOOK_BYTES_MAX = 262_144;

export const sentEventRoutes = [
  route({
    id: "sendEvent",
    request: "POST /v1/events",
    summary: "Send an event",
    description:
      "The event starts, signals or cancels executions of the workflows that have a trigger for it. The body is `{ name, data, id }`, or a CloudEvent 1.0 in structured mode (`application/cloudevents+json`) or binary mode (`ce-` headers). An event whose id is known changes nothing, and gets the first answer.",
    access: "operator",
    body: z.unknown(),
    query: z.strictObject({
      project: name.optional().describe("the project of the event, if the body does not name it"),
    }),
    answers: {
      200: {
        description: "the event was sent before; the answer is that to the first one",
        schema: sentEventSchema,
      },
      201: { description: "the event is durable", schema: sentEventSchema },
    },
    refusals: ["too_large", "not_storable", "forbidden"],
    audit: "event.send",
    async handle(ask, services) {
      const read = readEvent(ask.body, (name) => ask.header(name));
      if (isRejection(read)) return read;
      const event = inProject(ask.caller, read, ask.query.project);
      if (isRejection(event)) return event;
      const sent = await services.events.send(event);
      if (isRejection(sent)) return sent;
      ask.target(sent.id);
      return json(sent, { status: sent.repeated ? 200 : 201 });
    },
  }),
  route({
    id: "listEvents",
    request: "GET /v1/events",
    summary: "List events, newest first",
    access: "viewer",
    isGlobal: true,
    query: z.strictObject({
      unmatched: flag("only events that matched no trigger; they are kept for an hour"),
      limit: limit(),
      cursor,
    }),
    answers: { 200: { description: "a page", schema: eventListSchema } },
    async handle({ query }, { store }) {
      const { unmatched, limit: max, cursor: from } = query;
      return json(
        await listEvents(store, { unmatched, limit: max, ...(from === undefined ? {} : { cursor: from }) }),
      );
    },
  }),
  route({
    id: "receiveWebhook",
    request: "POST /v1/webhooks/{source}",
    summary: "Receive a signed webhook as an event",
    description:
      "The webhook must be signed by the Standard Webhooks scheme with a secret of the source (the setting `webhooks`). The event has the name `<source>/<type>`, where `type` is that of the body, and the id of the webhook.",
    access: "everyone",
    params: z.strictObject({ source: name }),
    headers: {
      "webhook-id": "the id of the webhook: a repeat with the same id changes nothing",
      "webhook-timestamp": "when the webhook was sent, in seconds since 1970",
      "webhook-signature": "the signatures",
    },
    answers: {
      200: { description: "the webhook came before", schema: sentEventSchema },
      201: { description: "the event is durable", schema: sentEventSchema },
    },
    refusals: ["unauthorised", "too_large", "invalid_json"],
    async handle(ask, services) {
      const { source } = ask.params;
      const { webhooks } = services.config;
      const known = Object.hasOwn(webhooks, source) ? webhooks[source] : undefined;
      const body = await readBytes(ask.incoming, WEBHOOK_BYTES_MAX);
      if (isRejection(body)) return body;
      const id = ask.header("webhook-id");
      const signed = {
        id,
        timestamp: ask.header("webhook-timestamp"),
        signature: ask.header("webhook-signature"),
        body,
      };
      // The answer does not reveal whether the source exists: the signature of an unknown source is checked with a random secret.
      const secrets = known?.secrets ?? [randomHex(services.random, 8)];
      const why = whyNotSigned(signed, secrets, services.clock.now());
      if (why !== null || known === undefined || id === undefined)
        return reject("unauthorised", `the webhook is not accepted: ${why}`, {
          hint: "sign the webhook with a secret that the setting `webhooks` has for the source",
        });
      const event = webhookEvent({ name: source, project: known.project }, id, body);
      if (isRejection(event)) return event;
      const sent = await services.events.send(event);
      return isRejection(sent) ? sent : json(sent, { status: sent.repeated ? 200 : 201 });
    },
  }),
];

/** The event with its project: that of the caller, if the caller is bound to one. */
function inProject(caller: Caller, event: unknown, asked: string | undefined): unknown {
  if (!isObject(event)) return event;
  const given = event["project"] ?? asked;
  if (caller.project === null) return given === undefined ? event : { ...event, project: given };
  if (given !== undefined && given !== caller.project)
    return reject("forbidden", `${caller.name} is bound to the project "${caller.project}"`, {
      path: "project",
    });
  return { ...event, project: caller.project };
}
