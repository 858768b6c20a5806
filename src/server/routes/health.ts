/** Health, readiness, version and metrics. */
import { z } from "@hono/zod-openapi";
import { reject } from "../../std/rejection.ts";
import { remoteEpoch } from "../../store/remote-epoch.ts";
import { type Store, StoreFault } from "../../store/store.ts";
import { json } from "../route.ts";
import { routesOf } from "./services.ts";

const route = routesOf("health");
/** How long the store may take to answer a readiness check. */
const READY_MS = 2_000;

const healthRoute = route({
  id: "health",
  request: "GET /healthz",
  summary: "Check that the process is alive",
  access: "everyone",
  answers: { 200: { description: "it does", schema: z.object({ status: z.literal("ok") }) } },
  handle: () => json({ status: "ok" }),
});

const READY = z.object({
  status: z.literal("ready"),
  broker: z
    .enum(["connecting", "up", "blocked", "down", "closed"])
    .optional()
    .describe(
      "the state of the connection to the broker, if one is configured; requests are accepted without it",
    ),
  lostTransactions: z
    .int()
    .optional()
    .describe(
      "the least number of transactions that were lost when the store was opened, because its write-ahead log was damaged or missing",
    ),
});

const FAULT_CHARS = 500;

const readyRoute = route({
  id: "ready",
  request: "GET /readyz",
  summary: "Check that the server is ready: its store answers and takes writes, and it is not closing",
  access: "everyone",
  timeMs: READY_MS,
  answers: { 200: { description: "it is ready", schema: READY } },
  refusals: ["not_ready", "store_unavailable"],
  async handle(_ask, services) {
    if (services.isClosing()) return reject("not_ready", "the server is closing");
    if (services.engine.hasStopped) return reject("not_ready", "the engine has stopped");
    // The store is asked before the fault of the last commit is reported, because that fault may be over.
    const unanswered = await storeFault(services.store);
    if (unanswered !== null)
      return reject(
        "store_unavailable",
        `the store does not answer: ${unanswered.message.slice(0, FAULT_CHARS)}`,
      );
    const fault = services.engine.commitFault;
    if (fault !== null)
      return reject("store_unavailable", `the store takes no writes: ${fault.message.slice(0, FAULT_CHARS)}`);
    const { broker } = services;
    const { lostTransactions = 0 } = services.engine.info;
    return json({
      status: "ready",
      ...(broker ? { broker: broker.view.state } : {}),
      ...(lostTransactions > 0 ? { lostTransactions } : {}),
    });
  },
});

/** Returns why the store does not answer; null if it answers. An error about a damaged document is an answer too. */
async function storeFault(store: Pick<Store, "getDocument">): Promise<StoreFault | null> {
  try {
    await remoteEpoch(store);
    return null;
  } catch (thrown) {
    if (thrown instanceof StoreFault) return thrown;
    throw thrown;
  }
}

const metricsRoute = route({
  id: "metrics",
  request: "GET /metrics",
  summary: "Get metrics for Prometheus",
  access: "viewer",
  isGlobal: true,
  answers: { 200: { description: "in Prometheus' text format", types: ["text/plain"] } },
  async handle(_ask, services) {
    const { type, body } = await services.metrics.text();
    return { kind: "bytes", status: 200, type, body };
  },
});

const versionRoute = route({
  id: "version",
  request: "GET /version",
  summary: "Get the versions of Rondo and Node.js",
  access: "known",
  answers: {
    200: { description: "versions", schema: z.object({ version: z.string(), node: z.string() }) },
  },
  handle: (_ask, services) => json({ version: services.config.version, node: process.versions.node }),
});

const openapiRoute = route({
  id: "openapi",
  request: "GET /openapi.json",
  summary: "Get this OpenAPI document",
  access: "known",
  answers: { 200: { description: "OpenAPI 3.1", schema: z.looseObject({ openapi: z.string() }) } },
  handle: (_ask, services) => json(services.document()),
});

export const healthRoutes = [healthRoute, readyRoute, metricsRoute, versionRoute, openapiRoute];
