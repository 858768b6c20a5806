import { Cell } from "../core/cell.ts";
import type { IconName } from "../ui/icon.tsx";

/** Whether the server is known to be the demo's, which has a page of its own. */
export const isDemo = new Cell(false);

/** A place that the navigation leads to. */
export interface NavItem {
  readonly path: string;
  readonly label: string;
  readonly icon: IconName;
  readonly keys: string;
  /** Only about the whole server: not for who is bound to a project. */
  readonly isGlobal?: boolean;
  readonly needs?: "admin";
  readonly isOfDemo?: boolean;
}

/** All of them, in order. */
export const NAV: readonly NavItem[] = [
  { path: "/demo", label: "Demo", icon: "play", keys: "g x", isOfDemo: true },
  { path: "/", label: "Overview", icon: "overview", keys: "g o" },
  { path: "/executions", label: "Executions", icon: "executions", keys: "g e" },
  { path: "/workers", label: "Workers", icon: "workers", keys: "g w", isGlobal: true },
  { path: "/ring", label: "Ring", icon: "ring", keys: "g r", isGlobal: true },
  { path: "/queues", label: "Queues", icon: "queues", keys: "g q" },
  { path: "/schedules", label: "Schedules", icon: "schedules", keys: "g s" },
  { path: "/dead-letters", label: "Dead letters", icon: "letters", keys: "g d" },
  { path: "/definitions", label: "Definitions", icon: "definitions", keys: "g f" },
  { path: "/settings", label: "Settings", icon: "settings", keys: "g t" },
];

/** The item that an address is under. */
export function navOf(path: string): NavItem | undefined {
  return NAV.find((item) =>
    item.path === "/" ? path === "/" : path === item.path || path.startsWith(`${item.path}/`),
  );
}
