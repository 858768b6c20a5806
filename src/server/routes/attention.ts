/** Problems for the attention of an operator: work that no worker serves, new errors, schedules and nodes with a problem, damage. */
import { isRejection } from "../../std/rejection.ts";
import { mergeOverviews } from "../other-nodes.ts";
import { json } from "../route.ts";
import { type Attention, attentionSchema } from "../schemas/node.ts";
import { pageOf } from "../schemas/paging.ts";
import { projectFor, routesOf, type Services } from "./services.ts";

const route = routesOf("node");
/** An error group counts as new for this time after its first task failed. */
const NEW_MS = 3_600_000;
/** The most items of one kind. */
const EACH_MAX = 5;
const SCHEDULES_MAX = 500;

export const attentionRoute = route({
  id: "listAttention",
  request: "GET /v1/attention",
  summary:
    "List what needs attention: unserved work, new errors, failing schedules, nodes that do not answer, damage",
  access: "viewer",
  answers: { 200: { description: "the most urgent first", schema: pageOf(attentionSchema, "items") } },
  async handle({ caller }, services) {
    const isBound = caller.project !== null;
    const project = projectFor(caller, undefined) ?? {};
    const [{ nodes, headers }, counts, schedules, groups] = await Promise.all([
      services.allNodes.ask({}),
      services.store.countHeads(project),
      services.schedules.list({ ...project, limit: SCHEDULES_MAX }),
      services.deadLetterGroups.list(project),
    ]);
    const now = services.clock.now();
    const missing = headers["rondo-missing"];
    const items: Attention[] = [
      ...(missing === undefined ? [] : [item("node", missing, 1, `No answer from ${missing}.`)]),
      ...(isBound ? [] : suspectsOf(services)),
      ...((counts["damaged"] ?? 0) === 0
        ? []
        : [
            item(
              "damaged",
              "damaged",
              counts["damaged"] ?? 0,
              "Stored data of these executions cannot be read.",
            ),
          ]),
      ...(isBound ? [] : unservedOf(mergeOverviews(nodes.map(({ overview }) => overview)))),
      ...(isRejection(schedules) ? [] : schedules.data).flatMap(({ id, state, problem }) => {
        const wrong = state.lastError ?? problem ?? null;
        return wrong === null || state.paused ? [] : [item("schedule", id, 1, wrong.message)];
      }),
      ...groups.groups
        .filter(({ group }) => group.firstAt !== null && now - group.firstAt < NEW_MS)
        .slice(0, EACH_MAX)
        .map(({ group }) => ({
          ...item("error", group.id, group.tasks, `${group.name}: ${group.message}`),
          workflow: group.workflow,
        })),
    ];
    return json({ data: items, next: null }, { headers });
  },
});

function item(kind: Attention["kind"], name: string, count: number, text: string): Attention {
  return { kind, name, count, text: text.slice(0, 300) };
}

/** Nodes of the ring that do not answer. */
function suspectsOf({ ring }: Services): Attention[] {
  return (ring?.().ring.nodes ?? [])
    .filter(({ suspect }) => suspect)
    .map(({ url }) => item("node", url, 1, "The node does not answer."));
}

/** Handlers and topics with ready tasks that no worker serves. */
function unservedOf({ ready, workers }: ReturnType<typeof mergeOverviews>): Attention[] {
  const served = new Set(workers.flatMap(({ serves }) => serves.map(({ use }) => use)));
  return ready
    .filter(({ use, tasks }) => tasks > 0 && !served.has(use))
    .sort((a, b) => b.tasks - a.tasks)
    .slice(0, EACH_MAX)
    .map(({ use, tasks }) => item("unserved", use, tasks, "No worker serves it."));
}
