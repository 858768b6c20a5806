/** Who asks, and what they may do: viewer < operator < admin; worker stands apart, and admin includes it. */

export const ROLES = ["viewer", "operator", "admin", "worker"] as const;

export type Role = (typeof ROLES)[number];

export interface Caller {
  /** The name of the token; `socket` or `local` where none is needed. */
  readonly name: string;
  readonly role: Role;
  /** The one project that it may see and change; null: all. */
  readonly project: string | null;
  /** The id of the token; null: none was needed. */
  readonly token: string | null;
  /** What requests are counted by for the rate limit; null: not limited. */
  readonly countedBy: string | null;
}

const INCLUDES: Readonly<Record<Role, readonly Role[]>> = {
  viewer: ["viewer"],
  operator: ["viewer", "operator"],
  admin: ROLES,
  worker: ["worker"],
};

/** Whether a role includes another. */
export function includes(role: Role, wanted: Role): boolean {
  return INCLUDES[role].includes(wanted);
}

/** Whether the caller may see what is of a project. */
export function seesProject(caller: Caller, project: string): boolean {
  return caller.project === null || caller.project === project;
}
