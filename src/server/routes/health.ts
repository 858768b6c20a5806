/** Is it alive, is it ready, what is it, how is it doing. */
import { z } from "@hono/zod-openapi";
import { reject } from "../../std/rejection.ts";
import { remoteEpoch } from "../../store/remote-epoch.ts";
import { json, type Route, route } from "../route.ts";
import type { Services } from "./services.ts";

const TAG = "health";
/** How long the store may take to answer a ready check. */
const READY_MS = 2_000;

/** The routes. */
export function healthRoutes(desk: Services): Route[] {
  return [healthRoute(), readyRoute(desk), metricsRoute(desk), versionRoute(desk), openapiRoute(desk)];
}

function healthRoute(): Route {
  return route(
    {
      id: "health",
      method: "get",
      path: "/healthz",
      tag: TAG,
      summary: "The process answers",
      access: "everyone",
      answers: { 200: { description: "it does", schema: z.object({ status: z.literal("ok") }) } },
    },
    () => json({ status: "ok" }),
  );
}

const READY = z.object({
  status: z.literal("ready"),
  broker: z
    .enum(["connecting", "up", "blocked", "down", "closed"])
    .optional()
    .describe("how the broker stands, where there is one; it is not needed to take requests"),
  lostTransactions: z
    .int()
    .optional()
    .describe(
      "at least so many transactions were lost when the store was opened: its write-ahead log was damaged or missing",
    ),
});

const FAULT_CHARS = 500;

function readyRoute(desk: Services): Route {
  return route(
    {
      id: "ready",
      method: "get",
      path: "/readyz",
      tag: TAG,
      summary: "The server takes requests: its store answers and takes writes, and it is not closing",
      access: "everyone",
      timeMs: READY_MS,
      answers: { 200: { description: "it is ready", schema: READY } },
      refusals: ["not_ready", "store_unavailable"],
    },
    async () => {
      if (desk.isClosing()) return reject("not_ready", "the server is closing");
      if (desk.engine.hasStopped) return reject("not_ready", "the engine has stopped");
      const fault = desk.engine.commitFault;
      if (fault !== null)
        return reject(
          "store_unavailable",
          `the store takes no writes: ${fault.message.slice(0, FAULT_CHARS)}`,
        );
      // Whether the store answers; a damaged document is an answer too.
      await remoteEpoch(desk.store);
      const { broker } = desk;
      const { lostTransactions = 0 } = desk.engine.info;
      return json({
        status: "ready",
        ...(broker ? { broker: broker.view.state } : {}),
        ...(lostTransactions > 0 ? { lostTransactions } : {}),
      });
    },
  );
}

function metricsRoute(desk: Services): Route {
  return route(
    {
      id: "metrics",
      method: "get",
      path: "/metrics",
      tag: TAG,
      summary: "Figures for Prometheus",
      access: "viewer",
      isGlobal: true,
      answers: { 200: { description: "in Prometheus' text format", types: ["text/plain"] } },
    },
    async () => {
      const { type, body } = await desk.metrics.text();
      return { kind: "bytes", status: 200, type, body };
    },
  );
}

function versionRoute(desk: Services): Route {
  return route(
    {
      id: "version",
      method: "get",
      path: "/version",
      tag: TAG,
      summary: "Which Rondo this is",
      access: "known",
      answers: {
        200: { description: "versions", schema: z.object({ version: z.string(), node: z.string() }) },
      },
    },
    () => json({ version: desk.config.version, node: process.versions.node }),
  );
}

function openapiRoute(desk: Services): Route {
  return route(
    {
      id: "openapi",
      method: "get",
      path: "/openapi.json",
      tag: TAG,
      summary: "This document",
      access: "known",
      answers: { 200: { description: "OpenAPI 3.1", schema: z.looseObject({ openapi: z.string() }) } },
    },
    () => json(desk.document()),
  );
}
