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
      }),
    ),
    more: z.number().int(),
  })
  .openapi("Audit");

/** The routes. */
export function auditRoutes(desk: Desk): Route[] {
  return [
    route(
      {
        id: "auditExecution",
        method: "get",
        path: "/v1/executions/{id}/audit",
        tag: "executions",
        summary: "Count an execution anew from its journal, and compare",
        description:
          "Reads the whole journal and derives phases, tasks and counts by rules of its own; then compares them with what the journal says where handlers and phases end, with its chain hashes, with what the node shows and with what lists show. No findings: nothing is lost, nothing is counted twice.",
        access: "viewer",
        params: executionParams,
        answers: { 200: { description: "what was found", schema: auditSchema } },
      },
      async ({ params: { id }, caller }) => {
        const [stored] = await desk.store.load([id]);
        if (stored === null || stored === undefined || !seesProject(caller, stored.head.project))
          return reject("not_found", `there is no execution ${id}`);
        const audit = await auditExecution(desk.store, id, async () => {
          const found = await inspectFor(desk, caller, id);
          return isRejection(found) ? found : found.view;
        });
        return isRejection(audit) ? audit : json(audit);
      },
    ),
  ];
}
