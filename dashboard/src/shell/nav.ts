import { Cell } from "../core/cell.ts";
import type { IconName } from "../ui/icon.tsx";

/** Whether the server is the demo's server, which has an additional page. */
export const isDemo = new Cell(false);

/** An entry of the navigation. */
export interface NavItem {
  readonly path: string;
  readonly label: string;
  readonly icon: IconName;
  readonly keys: string;
  /** Whether the page concerns the whole server. It is hidden from users that are bound to a project. */
  readonly isGlobal?: boolean;
  readonly needs?: "admin";
  readonly isOfDemo?: boolean;
}

/** All entries of the navigation, in order. */
export const NAV: readonly NavItem[] = [
  { path: "/demo", label: "Demo", icon: "play", keys: "g x", isOfDemo: true },
  { path: "/", label: "Overview", icon: "overview", keys: "g o" },
  { path: "/executions", label: "Executions", icon: "executions", keys: "g e" },
  { path: "/workers", label: "Workers", icon: "workers", keys: "g w", isGlobal: true },
  { path: "/ring", label: "Ring", icon: "ring", keys: "g r", isGlobal: true },
  { path: "/queues", label: "Queues", icon: "queues", keys: "g q" },
  { path: "/schedules", label: "Schedules", icon: "schedules", keys: "g s" },
  { path: "/dead-letters", label: "Dead letters", icon: "letters", keys: "g d" },
  { path: "/definitions", label: "Workflows", icon: "definitions", keys: "g f" },
  { path: "/alerts", label: "Alerts", icon: "bell", keys: "g a", isGlobal: true },
  { path: "/settings", label: "Settings", icon: "settings", keys: "g t" },
];

/** The entry of the navigation that an address belongs to. */
export function navOf(path: string): NavItem | undefined {
  return NAV.find((item) =>
    item.path === "/" ? path === "/" : path === item.path || path.startsWith(`${item.path}/`),
  );
}
