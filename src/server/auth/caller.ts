/** Callers and roles: viewer < operator < admin; worker is separate, and admin includes it. */
import type { ExecutionGrant } from "./execution-token.ts";

export const ROLES = ["viewer", "operator", "admin", "worker"] as const;

export type Role = (typeof ROLES)[number];

export interface Caller {
  /** The name of the caller's token; `socket` or `local` if the caller needs no token. */
  readonly name: string;
  /** The role of the caller; `execution` for the holder of a token for one execution, which has no role. */
  readonly role: Role | "execution";
  /** The only project that the caller may see and change; null if the caller may see all projects. */
  readonly project: string | null;
  /**
   * The id of the caller's token; null if the caller needed no token. For a token for one execution it is the id of the token that
   * it was made with.
   */
  readonly token: string | null;
  /** The key of the caller's rate limit; null if the caller has no rate limit. */
  readonly countedBy: string | null;
  /** The rights of a token for one execution; missing for other callers. */
  readonly grant?: ExecutionGrant;
}

const INCLUDES: Readonly<Record<Caller["role"], readonly Role[]>> = {
  viewer: ["viewer"],
  operator: ["viewer", "operator"],
  admin: ROLES,
  worker: ["worker"],
  execution: [],
};

/** Whether a role includes the rights of another role. */
export function includes(role: Caller["role"], wanted: Role): boolean {
  return INCLUDES[role].includes(wanted);
}

/** Whether the caller may see a project. */
export function seesProject(caller: Caller, project: string): boolean {
  return caller.project === null || caller.project === project;
}
