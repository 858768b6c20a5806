/** The route of the auditor, which recounts one execution from its journal. */

import { auditExecution } from "../../audit/audit-execution.ts";
import { addressOf, exactly } from "../../kernel/definition/names.ts";
import { isRejection, reject } from "../../std/rejection.ts";
import { seesProject } from "../auth/caller.ts";
import { json } from "../route.ts";
import { auditSchema, tableSchema } from "../schemas/execution.ts";
import { executionParams } from "../schemas/paging.ts";
import { auditDocuments } from "../services/document-audit.ts";
import { inspectFor, routesOf } from "./services.ts";

function executionRoute(repair: boolean) {
  return routesOf("executions")({
    id: repair ? "repairExecution" : "auditExecution",
    request: repair ? "POST /v1/executions/{id}/audit" : "GET /v1/executions/{id}/audit",
    summary: repair
      ? "Check an execution against its journal, and repair what is derived from it"
      : "Check an execution against its journal",
    description:
      "Reads the whole journal and derives phases, tasks and counts by rules of its own. Compares them with the totals that the journal has at the end of handlers and phases, with its chain hashes, with the node's view of the execution, with lists and with the stored timers. No findings: nothing is lost, nothing is counted twice. With POST, heads and timers that differ are written again.",
    access: repair ? "operator" : "viewer",
    params: executionParams,
    answers: { 200: { description: "what was found", schema: auditSchema } },
    ...(repair ? { audit: "execution.repair" } : {}),
    async handle({ params, caller }, services) {
      const { stored: id } = addressOf(params.id);
      const [stored] = await services.store.load([id]);
      if (stored === null || stored === undefined || !seesProject(caller, stored.head.project))
        return reject("not_found", `there is no execution ${id}`);
      const inspect = async () => {
        const found = await inspectFor(services, caller, exactly(id));
        return isRejection(found) ? found : found.view;
      };
      const { partitions } = services.engine.info;
      const audit = await auditExecution(services.store, id, inspect, { repair, partitions });
      return isRejection(audit) ? audit : json(audit);
    },
  });
}

function tablesRoute(repair: boolean) {
  return routesOf("admin")({
    id: repair ? "repairTables" : "auditTables",
    request: repair ? "POST /v1/audit/tables" : "GET /v1/audit/tables",
    summary: repair
      ? "Check counts and indexes of the store, and repair them"
      : "Check counts and indexes of the store",
    description:
      "The check takes a while on a large store; an embedded store takes no commits during it. It also finds executions whose row is missing although their journal exists, workflows that have executions and no newest definition, and documents (schedules, tokens, topics) that cannot be read. With POST, derived data is derived again, roles of topics are decided again, and idempotency keys that cannot be read are deleted.",
    access: repair ? "admin" : "operator",
    isGlobal: true,
    answers: { 200: { description: "what was found", schema: tableSchema } },
    ...(repair ? { audit: "tables.repair" } : {}),
    async handle(_ask, services) {
      const tables = await services.store.auditTables({ repair });
      return json({ findings: [...tables, ...(await auditDocuments(services.store, { repair }))] });
    },
  });
}

export const auditRoutes = [
  executionRoute(false),
  executionRoute(true),
  tablesRoute(false),
  tablesRoute(true),
];
