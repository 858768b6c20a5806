/**
 * Problems for the attention of an operator: work that no worker serves, slow executions, new errors, schedules and nodes with a
 * problem, damage.
 */
import type { ScheduleView } from "../../schedule/schedule-store.ts";
import { showDuration } from "../../std/duration.ts";
import { isRejection } from "../../std/rejection.ts";
import { deathsOf } from "../alerts/alert-causes.ts";
import { type Caller, seesProject } from "../auth/caller.ts";
import { mergeOverviews } from "../other-nodes.ts";
import { json } from "../route.ts";
import { type Attention, attentionSchema } from "../schemas/node.ts";
import { pageOf } from "../schemas/paging.ts";
import { quantileOf, sumFigures } from "../services/workflow-figures.ts";
import { projectFor, routesOf, type Services } from "./services.ts";

const route = routesOf("node");
/** An error group counts as new for this time after its first task failed. */
const NEW_MS = 3_600_000;
/** The most items of one kind. */
const EACH_MAX = 5;
const SCHEDULES_MAX = 500;
/** A node that died is listed for this time, unless it is back. */
const DEATH_MS = 3_600_000;
const DAY_MS = 86_400_000;
/** An execution is slow if it is open this many times as long as 99 of 100 take, and for a minute at least. */
const SLOW_TIMES = 3;
const SLOW_MS_MIN = 60_000;
/** A workflow has a usual duration after this many runs. */
const RUNS_MIN = 5;

export const attentionRoute = route({
  id: "listAttention",
  request: "GET /v1/attention",
  summary:
    "List problems that need the operator's attention: unserved work, slow executions, new errors, failing schedules, nodes that died, damage",
  access: "viewer",
  answers: { 200: { description: "the most urgent first", schema: pageOf(attentionSchema, "items") } },
  async handle({ caller }, services) {
    const isBound = caller.project !== null;
    const project = projectFor(caller, undefined) ?? {};
    const [{ nodes, headers }, counts, schedules, groups, slow] = await Promise.all([
      services.allNodes.ask({}),
      services.store.countHeads(project),
      schedulesOf(services, project),
      services.deadLetterGroups.list(project),
      slowOf(services, caller),
    ]);
    const now = services.clock.now();
    const errors = groups.groups.filter(
      ({ group }) => group.firstAt !== null && now - group.firstAt < NEW_MS,
    );
    const missing = headers["rondo-missing"];
    const items: Attention[] = [
      ...(missing === undefined ? [] : [item("node", missing, 1, `No answer from ${missing}.`)]),
      ...(isBound ? [] : awayOf(services)),
      ...((counts["damaged"] ?? 0) === 0
        ? []
        : [
            item(
              "damaged",
              "damaged",
              counts["damaged"] ?? 0,
              "Stored data of some executions cannot be read.",
            ),
          ]),
      ...(isBound ? [] : unservedOf(mergeOverviews(nodes.map(({ overview }) => overview)))),
      ...slow,
      ...schedules.flatMap(({ id, state, problem }) => {
        const wrong = state.lastError ?? problem ?? null;
        return wrong === null || state.paused ? [] : [item("schedule", id, 1, wrong.message)];
      }),
      ...errors.slice(0, EACH_MAX).map(({ group }) => ({
        ...item("error", group.id, group.tasks, `${group.name}: ${group.message}`),
        workflow: group.workflow,
      })),
      ...(errors.length > EACH_MAX
        ? [item("errors", "errors", errors.length - EACH_MAX, "Fewer tasks each.")]
        : []),
    ];
    return json({ data: items, next: null }, { headers });
  },
});

/** The first schedules, and of more those that fail. */
async function schedulesOf(
  { schedules }: Services,
  project: { readonly project?: string },
): Promise<readonly ScheduleView[]> {
  const first = await schedules.list({ ...project, limit: SCHEDULES_MAX });
  if (isRejection(first)) return [];
  if (first.next === null) return first.data;
  const failing = await schedules.list({ ...project, q: "failing", cursor: first.next, limit: EACH_MAX });
  return isRejection(failing) ? first.data : [...first.data, ...failing.data];
}

function item(kind: Attention["kind"], name: string, count: number, text: string): Attention {
  return { kind, name, count, text: text.slice(0, 300) };
}

/** Nodes of the ring that do not answer, and nodes that died and are not back. */
function awayOf({ ring, clock }: Services): Attention[] {
  const shown = ring?.();
  if (shown === undefined) return [];
  const { nodes } = shown.ring;
  const died = new Map(deathsOf(shown).map(({ data, at }) => [String(data["url"]), at] as const));
  return [
    ...nodes
      .filter(({ suspect }) => suspect)
      .map(({ url }) => item("node", url, 1, "The node does not answer.")),
    ...[...died]
      .filter(([url, at]) => clock.now() - at < DEATH_MS && !nodes.some((node) => node.url === url))
      .slice(-EACH_MAX)
      .map(([url, at]) =>
        item(
          "node",
          url,
          1,
          `The node died ${showDuration(Math.floor((clock.now() - at) / 1_000) * 1_000)} ago, and is not back.`,
        ),
      ),
  ];
}

/** Executions with open work that are open for much longer than executions of their workflow take. */
async function slowOf({ store, figures, clock }: Services, caller: Caller): Promise<Attention[]> {
  const now = clock.now();
  const heads = (await store.scanWork({ after: {}, each: 1, partitions: null })).filter(
    ({ project, createdAt }) => seesProject(caller, project) && now - createdAt >= SLOW_MS_MIN,
  );
  if (heads.length === 0) return [];
  const days = (await Promise.all([figures.ofDay(now - DAY_MS), figures.ofDay(now)])).flat();
  return heads
    .flatMap(({ id, workflow, project, createdAt }) => {
      const own = days.filter((one) => one.workflow === workflow && one.project === project);
      const { runs } = sumFigures(own.map((one) => one.figures));
      const usual = runs.done < RUNS_MIN ? null : quantileOf(runs, 0.99);
      const ms = now - createdAt;
      if (usual === null || ms < usual * SLOW_TIMES) return [];
      const text = `Open for ${showDuration(ms)}; 99 of 100 runs take at most ${showDuration(usual)}.`;
      return [{ ms, item: { ...item("slow", id, 1, text), workflow } }];
    })
    .sort((a, b) => b.ms - a.ms)
    .slice(0, EACH_MAX)
    .map((one) => one.item);
}

/** Handlers and topics with ready tasks that no worker serves. */
function unservedOf({ ready, workers }: ReturnType<typeof mergeOverviews>): Attention[] {
  const served = new Set(workers.flatMap(({ serves }) => serves.map(({ use }) => use)));
  return ready
    .filter(({ use, tasks }) => tasks > 0 && !served.has(use))
    .sort((a, b) => b.tasks - a.tasks)
    .slice(0, EACH_MAX)
    .map(({ use, tasks, workflows = [] }) => {
      const waiting = workflows.length === 0 ? "" : ` Executions of ${workflows.join(", ")} wait for it.`;
      return item("unserved", use, tasks, `No worker serves it.${waiting}`);
    });
}
