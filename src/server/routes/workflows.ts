/** Definitions of workflows: stored by their hash, started by their name. */
import { z } from "@hono/zod-openapi";
import { isSubmissionName } from "../../commands/submission-definition.ts";
import { isRejection, reject } from "../../std/rejection.ts";
import { json, type Route, route } from "../route.ts";
import { cursor, limit, name, pageOf, time } from "../schemas/paging.ts";
import { listVersions } from "../services/version-log.ts";
import type { Services } from "./services.ts";

const TAG = "workflows";
const PAST_PAGE = 200;
const PAST_PAGES = 25;
const params = z.strictObject({ name });
const hash = z
  .string()
  .regex(/^[\da-f]{64}$/, "is not a hash")
  .openapi({ description: "SHA-256 of its canonical form" });

const definitionSchema = z
  .looseObject({
    rondo: z
      .unknown()
      .optional()
      .openapi({
        type: "integer",
        enum: [1, 2],
        description:
          "The version it is written in. In version 2 a handler with `use` alone is enumerated by that code; in version 1, or without a version, its one task is the input. What is stored is always version 1.",
      }),
    name: z.unknown().openapi({ type: "string" }),
    phases: z.unknown().openapi({ type: "array", items: { type: "object" } }),
  })
  .openapi("Definition", {
    description:
      "A workflow as data. A handler says where its tasks come from: `use` alone (its code enumerates them), `enumerate: { use }` (other code does), `tasks: [...]`, or `single: true` (one task: the input). Durations are `500ms`, `30s`, `5m`, `2h`, `1d` or milliseconds.",
    example: {
      rondo: 2,
      name: "thumbnails",
      input: { type: "object", required: ["bucket"] },
      phases: [
        { name: "resize", handlers: { resize: { use: "thumbnails.resize", timeout: "30s" } } },
        { name: "publish", handlers: { publish: { use: "thumbnails.publish", single: true } } },
      ],
    },
  });

const namedSchema = z.object({ name: z.string(), hash: z.string() }).openapi("WorkflowName");
const workflowSchema = namedSchema.extend({ definition: definitionSchema }).openapi("Workflow");

const versionSchema = z
  .object({
    hash,
    at: time.nullable().openapi({ description: "since when; null: before this was noted" }),
  })
  .openapi("WorkflowVersion");

/** The routes. */
export function workflowRoutes(services: Services): Route[] {
  return [putRoute(services), listRoute(services), getRoute(services), versionsRoute(services)];
}

function putRoute(services: Services): Route {
  return route(
    {
      id: "putWorkflow",
      method: "post",
      path: "/v1/workflows",
      tag: TAG,
      summary: "Store a definition",
      description:
        "Idempotent by its hash. Starts use the newest definition of a name; executions keep the one they were started with.",
      access: ["operator", "worker"],
      isGlobal: true,
      body: definitionSchema,
      answers: {
        201: { description: "it is the newest now", schema: workflowSchema },
        200: { description: "it was the newest already", schema: workflowSchema },
      },
      refusals: ["invalid_definition"],
      audit: "workflow.put",
    },
    async (ask) => {
      const put = await services.definitions.put(ask.body);
      if (isRejection(put)) return put;
      const { definition, hash: stored } = put.known;
      services.engine.definitionStored(definition.name);
      ask.target(`${definition.name} ${stored.slice(0, 12)}`);
      return json(
        { name: definition.name, hash: stored, definition },
        { status: put.isNew ? 201 : 200, headers: { location: `/v1/workflows/${definition.name}` } },
      );
    },
  );
}

function listRoute(services: Services): Route {
  return route(
    {
      id: "listWorkflows",
      method: "get",
      path: "/v1/workflows",
      tag: TAG,
      summary: "Names of workflows, with the hash of the newest definition",
      access: ["viewer", "worker"],
      description:
        "Those that were handed in as commands are left out: see `/v1/projects/{project}/workflows`. So a page can be short and not be the last.",
      query: z.strictObject({ limit: limit(), cursor }),
      answers: { 200: { description: "in the order of names", schema: pageOf(namedSchema, "workflows") } },
    },
    async ({ query }) => json(await listNames(services, query.cursor ?? "", query.limit)),
  );
}

/** A page of names without those of submissions, of which there can be many: so many are looked past for a page. */
async function listNames(
  { store }: Services,
  after: string,
  max: number,
): Promise<{ data: { name: string; hash: string }[]; next: string | null }> {
  const data: { name: string; hash: string }[] = [];
  let at = after;
  for (let pages = 0; pages < PAST_PAGES; pages++) {
    const page = await store.listDefinitions({ after: at, max: Math.max(max, PAST_PAGE) });
    for (const found of page) {
      if (data.length === max) return { data, next: at };
      at = found.name;
      if (!isSubmissionName(found.name)) data.push(found);
    }
    if (page.length < Math.max(max, PAST_PAGE)) return { data, next: null };
  }
  return { data, next: at };
}

function getRoute(services: Services): Route {
  return route(
    {
      id: "getWorkflow",
      method: "get",
      path: "/v1/workflows/{name}",
      tag: TAG,
      summary: "A definition: the newest, or the one of a hash",
      description: "Its ETag is its hash.",
      access: ["viewer", "worker"],
      params,
      query: z.strictObject({ hash: hash.optional() }),
      headers: { "If-None-Match": "the ETag that the client has" },
      answers: {
        200: { description: "the definition", schema: workflowSchema },
        304: { description: "as the client has it" },
      },
    },
    async ({ params: { name: wanted }, query }) => {
      const found =
        query.hash === undefined
          ? await services.definitions.newest(wanted)
          : await services.definitions.byHash(query.hash);
      if (isRejection(found)) return found;
      const { definition, hash: stored } = found;
      if (definition.name !== wanted)
        return reject("not_found", `that definition is of the workflow "${definition.name}"`, {
          path: "hash",
        });
      return json({ name: wanted, hash: stored, definition }, { headers: { etag: `"${stored}"` } });
    },
  );
}

function versionsRoute(services: Services): Route {
  return route(
    {
      id: "listWorkflowVersions",
      method: "get",
      path: "/v1/workflows/{name}/versions",
      tag: TAG,
      summary: "Definitions that were the newest of a name, the newest first",
      description:
        "Each is at `/v1/workflows/{name}?hash=`. One that became the newest again is listed again.",
      access: ["viewer", "worker"],
      params,
      query: z.strictObject({ limit: limit(), cursor }),
      answers: { 200: { description: "a page", schema: pageOf(versionSchema, "versions") } },
    },
    async ({ params: { name: wanted }, query }) => {
      const page = query.cursor ?? null;
      if (page !== null && !/^\d{15} [\da-f]{16}$/.test(page))
        return reject("invalid_input", "cursor: is not the `next` of a page", { path: "cursor" });
      const found = await listVersions(services.store, wanted, { cursor: page, max: query.limit });
      return found === null ? reject("not_found", `there is no workflow "${wanted}"`) : json(found);
    },
  );
}
