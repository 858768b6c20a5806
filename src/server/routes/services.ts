/** The services that handlers of routes use. */
import type { Inspection } from "../../engine/io.ts";
import { inspectNewest } from "../../engine/newest.ts";
import type { ApiPort } from "../../sdk/operations-over.ts";
import { sha256 } from "../../std/hash.ts";
import { isRejection, type Rejection, reject } from "../../std/rejection.ts";
import type { EventSender } from "../../triggers/send-event.ts";
import type { Alerts } from "../alerts/alerts.ts";
import { type Caller, seesProject } from "../auth/caller.ts";
import type { EndedSessions } from "../auth/ended-sessions.ts";
import type { Tokens } from "../auth/tokens.ts";
import type { AllNodes } from "../other-nodes.ts";
import type { AlertParts, ApiParts } from "../parts.ts";
import { routesOver } from "../route.ts";
import type { AuditLog } from "../services/audit-log.ts";
import type { DeadLetterGroups } from "../services/dead-letter-groups.ts";
import type { EndedViews } from "../services/ended-views.ts";
import type { PausedQueues } from "../services/paused-queues.ts";
import type { TokenSightings } from "../services/token-sightings.ts";
import type { WorkflowFigures } from "../services/workflow-figures.ts";
import type { FeedHub } from "../streams/feed-hub.ts";
import type { LaneIndex } from "../views/lanes.ts";
import type { TaskIndexes } from "../views/task-indexes.ts";

export interface Services extends Omit<ApiParts, "alerts"> {
  readonly tokens: Tokens;
  readonly endedSessions: EndedSessions;
  readonly audit: AuditLog;
  readonly hub: FeedHub;
  readonly tasks: TaskIndexes;
  readonly lanes: LaneIndex;
  /** Views of executions. Views of ended executions are cached. */
  readonly views: EndedViews;
  readonly deadLetterGroups: DeadLetterGroups;
  readonly tokenSightings: TokenSightings;
  readonly figures: WorkflowFigures;
  readonly pausedQueues: PausedQueues;
  readonly alerts: Alerts;
  readonly events: EventSender;
  /** The targets of the configuration file that rules can name. */
  readonly alertTargets: AlertParts["targets"];
  /** This node and the other nodes of the cluster. */
  readonly allNodes: AllNodes;
  /** Whether the server is about to close. */
  readonly isClosing: () => boolean;
  /** Returns the address of this server. */
  readonly url: () => string;
  readonly document: () => { readonly openapi: string };
  /** Sends requests from this process with the rights of a caller. */
  readonly callsOf: (caller: Caller) => ApiPort;
}

/** Declares routes with this tag, whose handlers use the services. */
export const routesOf = (tag: string) => routesOver<Services>(tag);

/**
 * The view of the newest execution of an id that the caller may see; for other callers the execution does not exist. The view
 * has the execution's own id, such as `ID~2`.
 */
export async function inspectFor(
  { views }: Pick<Services, "views">,
  caller: Caller,
  id: string,
): Promise<Inspection | Rejection> {
  const found = await inspectNewest((one) => views.inspect(one), id);
  if (isRejection(found) || seesProject(caller, found.view.project)) return found;
  return reject("not_found", `there is no execution ${id}`);
}

/**
 * The project that a list is limited to: the caller's own if the caller is bound to one. Null if the caller may not see the
 * wanted project.
 */
export function projectFor(caller: Caller, wanted: string | undefined): { project?: string } | null {
  if (caller.project === null) return wanted === undefined ? {} : { project: wanted };
  return wanted === undefined || wanted === caller.project ? { project: caller.project } : null;
}

/**
 * The rejection of an id that exists already. Ids are unique over all projects, so a caller that is bound to a project learns
 * nothing else.
 */
export function idTaken(caller: Caller, { message }: Rejection, path = "id"): Rejection {
  return reject(
    "conflict",
    caller.project === null ? message : "an execution with this id exists, from a different start",
    { path, hint: "choose another id" },
  );
}

/** The id of an execution that is started with an Idempotency-Key. The same key and project give the same id. */
export function keyedId(project: string, ...key: readonly string[]): string {
  return `key_${sha256([project, ...key].join("\n")).slice(0, 40)}`;
}
