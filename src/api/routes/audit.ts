/** The auditor over HTTP: one execution, counted anew from its journal. */
import { z } from "@hono/zod-openapi";
import { auditExecution } from "../../audit/audit-execution.ts";
import { CODES } from "../../audit/auditor.ts";
import { isRejection, reject } from "../../std/rejection.ts";
import { seesProject } from "../access/caller.ts";
import { json, type Route, route } from "../route.ts";
import { executionParams } from "../schemas/paging.ts";
import { type Desk, inspectFor } from "./desk.ts";

const auditSchema = z
  .object({
    execution: z.string(),
    events: z.number().int(),
    tasks: z.number().int(),
    settled: z.number().int(),
    lost: z.number().int(),
    countedTwice: z.number().int(),
    findings: z.array(
      z.object({
        code: z.enum(CODES),
        seq: z.number().int(),
        message: z.string(),
        isRepaired: z.boolean().optional(),
      }),
    ),
    more: z.number().int(),
  })
  .openapi("Audit");

const tableSchema = z
  .object({
    findings: z.array(z.object({ table: z.string(), message: z.string(), isRepaired: z.boolean() })),
  })
  .openapi("TableAudit");

/** The routes. */
export function auditRoutes(desk: Desk): Route[] {
  return [
    executionRoute(desk, false),
    executionRoute(desk, true),
    tablesRoute(desk, false),
    tablesRoute(desk, true),
  ];
}

function executionRoute(desk: Desk, repair: boolean): Route {
  return route(
    {
      id: repair ? "repairExecution" : "auditExecution",
      method: repair ? "post" : "get",
      path: "/v1/executions/{id}/audit",
      tag: "executions",
      summary: repair
        ? "The same, and put in order what follows from the journal"
        : "Count an execution anew from its journal, and compare",
      description:
        "Reads the whole journal and derives phases, tasks and counts by rules of its own; then compares them with what the journal says where handlers and phases end, with its chain hashes, with what the node shows, with what lists show and with the timers that are kept. No findings: nothing is lost, nothing is counted twice. With POST, heads and timers that are otherwise are written anew.",
      access: repair ? "operator" : "viewer",
      params: executionParams,
      answers: { 200: { description: "what was found", schema: auditSchema } },
      ...(repair ? { audit: "execution.repair" } : {}),
    },
    async ({ params: { id }, caller }) => {
      const [stored] = await desk.store.load([id]);
      if (stored === null || stored === undefined || !seesProject(caller, stored.head.project))
        return reject("not_found", `there is no execution ${id}`);
      const inspect = async () => {
        const found = await inspectFor(desk, caller, id);
        return isRejection(found) ? found : found.view;
      };
      const { partitions } = desk.engine.info;
      const audit = await auditExecution(desk.store, id, inspect, { repair, partitions });
      return isRejection(audit) ? audit : json(audit);
    },
  );
}

function tablesRoute(desk: Desk, repair: boolean): Route {
  return route(
    {
      id: repair ? "repairTables" : "auditTables",
      method: repair ? "post" : "get",
      path: "/v1/audit/tables",
      tag: "admin",
      summary: repair
        ? "The same, and derive anew what does not agree"
        : "Compare counts with what is counted, and indexes with tables",
      description:
        "Takes a while on a large store; an embedded one takes no commits meanwhile. With POST, counts and indexes that do not agree are made anew.",
      access: repair ? "admin" : "operator",
      isGlobal: true,
      answers: { 200: { description: "what was found", schema: tableSchema } },
      ...(repair ? { audit: "tables.repair" } : {}),
    },
    async () => json({ findings: await desk.store.auditTables({ repair }) }),
  );
}
