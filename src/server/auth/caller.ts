/** Callers and roles: viewer < operator < admin; worker is separate, and admin includes it. */

export const ROLES = ["viewer", "operator", "admin", "worker"] as const;

export type Role = (typeof ROLES)[number];

export interface Caller {
  /** The name of the caller's token; `socket` or `local` if the caller needs no token. */
  readonly name: string;
  readonly role: Role;
  /** The only project that the caller may see and change; null if the caller may see all projects. */
  readonly project: string | null;
  /** The id of the caller's token; null if the caller needed no token. */
  readonly token: string | null;
  /** The key of the caller's rate limit; null if the caller has no rate limit. */
  readonly countedBy: string | null;
}

const INCLUDES: Readonly<Record<Role, readonly Role[]>> = {
  viewer: ["viewer"],
  operator: ["viewer", "operator"],
  admin: ROLES,
  worker: ["worker"],
};

/** Whether a role includes the rights of another role. */
export function includes(role: Role, wanted: Role): boolean {
  return INCLUDES[role].includes(wanted);
}

/** Whether the caller may see a project. */
export function seesProject(caller: Caller, project: string): boolean {
  return caller.project === null || caller.project === project;
}
