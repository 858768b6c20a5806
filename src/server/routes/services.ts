/** What the handlers of routes work with. */
import type { Inspection } from "../../engine/io.ts";
import { sha256 } from "../../std/hash.ts";
import { isRejection, type Rejection, reject } from "../../std/rejection.ts";
import { type Caller, seesProject } from "../auth/caller.ts";
import type { EndedSessions } from "../auth/ended-sessions.ts";
import type { Tokens } from "../auth/tokens.ts";
import type { AllNodes } from "../other-nodes.ts";
import type { ApiParts } from "../parts.ts";
import { routesOver } from "../route.ts";
import type { AuditLog } from "../services/audit-log.ts";
import type { DeadLetterGroups } from "../services/dead-letter-groups.ts";
import type { EndedViews } from "../services/ended-views.ts";
import type { TokenSightings } from "../services/token-sightings.ts";
import type { FeedHub } from "../streams/feed-hub.ts";
import type { LaneIndex } from "../views/lanes.ts";
import type { TaskIndexes } from "../views/task-indexes.ts";

export interface Services extends ApiParts {
  readonly tokens: Tokens;
  readonly endedSessions: EndedSessions;
  readonly audit: AuditLog;
  readonly hub: FeedHub;
  readonly tasks: TaskIndexes;
  readonly lanes: LaneIndex;
  /** How executions are; of those that have ended it is remembered. */
  readonly views: EndedViews;
  readonly deadLetterGroups: DeadLetterGroups;
  readonly tokenSightings: TokenSightings;
  /** This node and the others. */
  readonly allNodes: AllNodes;
  /** Whether the server is about to close. */
  readonly isClosing: () => boolean;
  /** The address under which it is reached. */
  readonly url: () => string;
  readonly document: () => { readonly openapi: string };
}

/** Declares a route whose handler works with the services. */
export const route = routesOver<Services>();

/** An execution that the caller may see; to others it does not exist. */
export async function inspectFor(
  { views }: Pick<Services, "views">,
  caller: Caller,
  id: string,
): Promise<Inspection | Rejection> {
  const found = await views.inspect(id);
  if (isRejection(found) || seesProject(caller, found.view.project)) return found;
  return reject("not_found", `there is no execution ${id}`);
}

/** The project that a list is about: the caller's own if it is bound to one. Null: the caller may not see the wanted one. */
export function projectFor(caller: Caller, wanted: string | undefined): { project?: string } | null {
  if (caller.project === null) return wanted === undefined ? {} : { project: wanted };
  return wanted === undefined || wanted === caller.project ? { project: caller.project } : null;
}

/** Ids are taken for all projects: who is bound to one learns no more than that. */
export function idTaken(caller: Caller, { message }: Rejection, path = "id"): Rejection {
  return reject(
    "conflict",
    caller.project === null ? message : "an execution with this id exists, and it is not this start",
    { path, hint: "choose another id" },
  );
}

/** The id of what a request with an Idempotency-Key starts: the same for the same key in the same project. */
export function keyedId(project: string, ...key: readonly string[]): string {
  return `key_${sha256([project, ...key].join("\n")).slice(0, 40)}`;
}
