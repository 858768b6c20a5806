// The OpenAPI document: complete, well-formed, and what the fixture holds every answer against.

import type { z } from "@hono/zod-openapi";
import { describe, expect, test } from "vitest";
import type { ExecutionView } from "../../src/kernel/view.ts";
import type { executionSchema } from "../../src/server/schemas/execution.ts";
import { checkAnswer, operationsOf } from "../fixtures/server/api-document.ts";
import { serve } from "../fixtures/server/api-fixture.ts";

/** Every route there is, by method and path. */
const ROUTES = `
delete /v1/alerts/{id}
delete /v1/schedules/{id}
delete /v1/session
delete /v1/tokens/{id}
delete /v1/workers/{id}
get /healthz
get /metrics
get /openapi.json
get /readyz
get /v1/alerts
get /v1/attempts
get /v1/attempts/{id}/items/{page}
get /v1/attempts/{id}/results/{phase}/{handler}
get /v1/attempts/{id}/runs
get /v1/attempts/{id}/runs/{run}
get /v1/attempts/{id}/runs/{run}/status
get /v1/attention
get /v1/audit-log
get /v1/audit/tables
get /v1/config
get /v1/counts
get /v1/dead-letter-groups
get /v1/dead-letters
get /v1/dead-letters/messages
get /v1/events
get /v1/executions
get /v1/executions/{id}
get /v1/executions/{id}/audit
get /v1/executions/{id}/dropped
get /v1/executions/{id}/events
get /v1/executions/{id}/lanes
get /v1/executions/{id}/logs
get /v1/executions/{id}/published
get /v1/executions/{id}/result
get /v1/executions/{id}/streams
get /v1/executions/{id}/streams/{name}
get /v1/executions/{id}/tasks
get /v1/executions/{id}/tasks/states
get /v1/executions/{id}/tasks/{n}/history
get /v1/executions/{id}/why
get /v1/limits
get /v1/overview
get /v1/progress
get /v1/projects/{project}/workflows
get /v1/projects/{project}/workflows/{id}
get /v1/queues/paused
get /v1/ring
get /v1/scaling
get /v1/schedules
get /v1/schedules/{id}
get /v1/session
get /v1/state/{store}/{key}
get /v1/timers
get /v1/tokens
get /v1/workers
get /v1/workflow-stats
get /v1/workflows
get /v1/workflows/{name}
get /v1/workflows/{name}/stats
get /v1/workflows/{name}/versions
get /version
post /mcp
post /v1/alerts
post /v1/alerts/{id}/test
post /v1/attempts/{id}/logs
post /v1/attempts/{id}/status
post /v1/audit/tables
post /v1/backup
post /v1/dead-letter-groups/{id}/drop
post /v1/dead-letter-groups/{id}/retry
post /v1/dead-letters/{id}/drop
post /v1/dead-letters/{id}/retry
post /v1/events
post /v1/executions
post /v1/executions/batch
post /v1/executions/bulk
post /v1/executions/{id}/audit
post /v1/executions/{id}/cancel
post /v1/executions/{id}/drop
post /v1/executions/{id}/move
post /v1/executions/{id}/pause
post /v1/executions/{id}/resume
post /v1/executions/{id}/retry
post /v1/executions/{id}/signals
post /v1/executions/{id}/tasks/retry
post /v1/executions/{id}/tokens
post /v1/executions/{id}/updates/{name}
post /v1/projects/{project}/workflows
post /v1/queues/{use}/pause
post /v1/queues/{use}/resume
post /v1/schedules
post /v1/schedules/{id}/backfill
post /v1/schedules/{id}/pause
post /v1/schedules/{id}/resume
post /v1/schedules/{id}/run
post /v1/session
post /v1/tokens
post /v1/webhooks/{source}
post /v1/workers
post /v1/workers/{id}/claim
post /v1/workers/{id}/drain
post /v1/workers/{id}/events
post /v1/workers/{id}/heartbeat
post /v1/workflows
`;

describe("the document", () => {
  test("has every route, each under a name of its own", async () => {
    const operations = operationsOf(await (await serve()).document());
    const found = operations.map(({ method, path }) => `${method} ${path}`).sort();
    expect(found).toEqual(ROUTES.trim().split("\n"));
    const ids = operations.map(({ operation }) => operation.operationId);
    expect(new Set(ids).size).toBe(ids.length);
  });

  test("describes every route, its parameters and its answers", async () => {
    const document = await (await serve()).document();
    expect(document.openapi).toBe("3.1.0");
    expect(document.info).toMatchObject({ title: "Rondo", version: expect.stringMatching(/^\d/) });
    expect(Object.keys(document.components.securitySchemes)).toEqual(["bearer", "cookie"]);
    for (const { method, path, operation } of operationsOf(document)) {
      const at = `${method} ${path}`;
      expect(operation.summary, at).toMatch(/^[A-Z]/);
      expect(operation.description, at).toMatch(/Needs /);
      expect(operation.tags, at).toHaveLength(1);
      const named = [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => name);
      const declared = (operation.parameters ?? [])
        .filter((one) => one.in === "path")
        .map(({ name }) => name);
      expect(new Set(declared), at).toEqual(new Set(named));
      const statuses = Object.keys(operation.responses);
      expect(
        statuses.some((status) => status.startsWith("2")),
        at,
      ).toBe(true);
      expect(statuses, at).toEqual(expect.arrayContaining(["403", "429", "500", "503"]));
      if (path !== "/healthz" && path !== "/readyz" && operation.operationId !== "deleteSession")
        expect(statuses, at).toContain("401");
      for (const [status, answer] of Object.entries(operation.responses)) {
        expect(answer.description, `${at} ${status}`).not.toBe("");
        if (Number(status) >= 400)
          expect(Object.keys(answer.content ?? {}), `${at} ${status}`).toEqual(["application/problem+json"]);
      }
      if (operation.requestBody !== undefined)
        expect(operation.requestBody.content).toHaveProperty("application/json");
    }
  });

  test("has no reference to nowhere", async () => {
    const document = await (await serve()).document();
    const references = [...JSON.stringify(document).matchAll(/"\$ref":"([^"]+)"/g)].map(([, ref]) =>
      String(ref),
    );
    expect(references.length).toBeGreaterThan(50);
    for (const reference of new Set(references))
      expect(document.components.schemas, reference).toHaveProperty(
        reference.replace("#/components/schemas/", ""),
      );
  });

  test("has examples that fit their schemas", async () => {
    const document = await (await serve()).document();
    const named = Object.entries(document.components.schemas).filter(([, schema]) => "example" in schema);
    expect(named.length).toBeGreaterThan(8);
    for (const [name, schema] of named) {
      const paths = {
        "/x": {
          get: { responses: { 200: { description: "", content: { "application/json": { schema } } } } },
        },
      };
      const got = { status: 200, type: "application/json", body: (schema as { example: unknown }).example };
      const wrong = checkAnswer({ ...document, paths } as never, { method: "GET", path: "/x" }, got);
      expect(wrong, name).toBeNull();
    }
  });

  test("is what an answer that differs from it is caught by", async () => {
    const document = await (await serve()).document();
    const check = (status: number, body: unknown, type = "application/json") =>
      checkAnswer(document, { method: "GET", path: "/v1/executions/one" }, { status, type, body });
    const example = (document.components.schemas["Execution"] as { example: object }).example;
    expect(check(200, example)).toBeNull();
    expect(check(200, { ...example, status: "gone" })).toContain("status");
    expect(check(200, { id: "one" })).not.toBeNull();
    expect(check(418, {})).toContain("does not have this status");
    expect(check(200, example, "text/html")).toContain("does not have the type");
  });
});

test("an execution on the wire has the fields of its type", () => {
  type Same<A, B> = [A, B] extends [B, A] ? true : false;
  const same: Same<keyof z.infer<typeof executionSchema>, keyof ExecutionView> = true;
  expect(same).toBe(true);
});
