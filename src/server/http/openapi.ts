/** The route table as an OpenAPI 3.1 document. */
import { type OpenAPIHono, type RouteConfig, z } from "@hono/zod-openapi";
import type { Access, Route } from "../route.ts";
import { problemSchema } from "../schemas/problem.ts";
import { PROBLEM_TYPE, PROBLEMS, type ProblemCode } from "./problem.ts";

/** Refusals that every route may return. */
const ALWAYS: readonly ProblemCode[] = [
  "forbidden",
  "invalid_input",
  "unknown_field",
  "rate_limited",
  "internal",
  "store_unavailable",
  "not_ready",
  "timeout",
];
const WITH_BODY: readonly ProblemCode[] = [
  "invalid_json",
  "too_large",
  "invalid_input",
  "unknown_field",
  "too_deep",
];

const DESCRIPTION = [
  "Durable, message-driven workflows.",
  "Lists are pages `{ data, next }`: send `next` as `cursor` to get the next page. Times are milliseconds since 1970. Errors are RFC 9457 problems with a `code` and a `hint`. Unknown fields are refused.",
  "`Idempotency-Key`: starts (without an id of their own), cancel, pause, resume, retry and signals are applied once for each key. Definitions and schedules are put under their own hash or id, so repeating them changes nothing; creating a token, running a schedule and bulk changes are applied each time.",
  "Over TCP, once a token exists every request needs one, except `/healthz`, `/readyz`, `DELETE /v1/session` and webhooks, which are signed; the socket in the store's directory needs none. Bodies are at most 4 MiB (events of workers 16 MiB, webhooks 256 KiB), pages at most 1,000 items.",
].join("\n\n");

/** Converts a route into the form that the OpenAPI registry takes. */
export function describeRoute(route: Route): RouteConfig {
  const { id, method, path, tag, summary, description, params, query, body } = route;
  const headers = headerParameters(route);
  return {
    method,
    path,
    operationId: id,
    tags: [tag],
    summary,
    description: [description, accessText(route.access)].filter((text) => text !== undefined).join("\n\n"),
    security: route.access === "everyone" ? [] : [{ bearer: [] }, { cookie: [] }],
    request: {
      ...(params === undefined ? {} : { params: params as z.ZodObject }),
      ...(query === undefined ? {} : { query: query as z.ZodObject }),
      ...(headers === null ? {} : { headers }),
      ...(body === undefined
        ? {}
        : {
            body: {
              required: route.isBodyOptional !== true,
              content: { "application/json": { schema: body } },
            },
          }),
    },
    responses: { ...answers(route), ...refusals(route) },
  };
}

export function openApiDocument(
  app: OpenAPIHono<never>,
  options: { readonly version: string; readonly url: string },
): { readonly openapi: string } {
  const document = app.getOpenAPI31Document({
    openapi: "3.1.0",
    info: {
      title: "Rondo",
      version: options.version,
      description: DESCRIPTION,
    },
    servers: [{ url: options.url }],
  });
  const described = {
    ...document,
    components: {
      ...document.components,
      securitySchemes: {
        bearer: { type: "http", scheme: "bearer", description: "A token made by `rondo token`." },
        cookie: {
          type: "apiKey",
          in: "cookie",
          name: "rondo_session",
          description: "A session cookie from `POST /v1/session`.",
        },
      },
    },
  };
  return described;
}

function answers(route: Route): RouteConfig["responses"] {
  return Object.fromEntries(
    Object.entries(route.answers).map(([status, { description, schema, types = [], example }]) => {
      const content = {
        ...(schema === undefined
          ? {}
          : { "application/json": { schema, ...(example === undefined ? {} : { example }) } }),
        ...Object.fromEntries(types.map((type) => [type, { schema: z.string() }])),
      };
      return [status, { description, ...(Object.keys(content).length === 0 ? {} : { content }) }];
    }),
  );
}

/** The refusals of a route by status. Several codes may share a status. */
function refusals(route: Route): RouteConfig["responses"] {
  const codes = new Set<ProblemCode>([
    ...ALWAYS,
    ...(route.access === "everyone" ? [] : (["unauthorised"] as const)),
    ...(route.body === undefined ? [] : WITH_BODY),
    ...(route.params === undefined ? [] : (["not_found"] as const)),
    ...(route.refusals ?? []),
  ]);
  const byStatus = new Map<number, ProblemCode[]>();
  for (const code of codes) {
    const { status } = PROBLEMS[code];
    byStatus.set(status, [...(byStatus.get(status) ?? []), code]);
  }
  const content = { [PROBLEM_TYPE]: { schema: problemSchema } };
  return Object.fromEntries(
    [...byStatus].map(([status, all]) => [status, { description: all.join(", "), content }]),
  );
}

function headerParameters({ headers }: Route): z.ZodObject | null {
  if (headers === undefined) return null;
  const shape = Object.entries(headers).map(([name, description]) => [
    name,
    z.string().optional().describe(description),
  ]);
  return z.object(Object.fromEntries(shape) as Record<string, z.ZodOptional<z.ZodString>>);
}

function accessText(access: Access): string {
  switch (access) {
    case "everyone":
      return "Needs no token.";
    case "known":
      return "Needs a token of any role.";
    case "attempt":
      return "Needs the attempt's token, as a bearer.";
    default:
      return `Needs the role ${typeof access === "string" ? access : access.join(" or ")}.`;
  }
}
