import type { Route } from "./route.ts";
import { adminRoutes } from "./routes/admin.ts";
import { auditRoutes } from "./routes/audit.ts";
import { backupRoute } from "./routes/backup.ts";
import { commandRoutes } from "./routes/commands.ts";
import { controlRoutes } from "./routes/controls.ts";
import { deadLetterGroupRoutes } from "./routes/dead-letter-groups.ts";
import { deadLetterRoutes } from "./routes/dead-letters.ts";
import { eventRoutes } from "./routes/events.ts";
import { executionRoutes } from "./routes/executions.ts";
import { healthRoutes } from "./routes/health.ts";
import { nodeRoutes } from "./routes/node.ts";
import { overviewRoutes } from "./routes/overview.ts";
import { ringRoute } from "./routes/ring.ts";
import { scheduleRoutes } from "./routes/schedules.ts";
import type { Services } from "./routes/services.ts";
import { stateRoute } from "./routes/state.ts";
import { taskRoutes } from "./routes/tasks.ts";
import { workflowRoutes } from "./routes/workflows.ts";

/** The one table of routes, but for those of workers. */
export function routeTable(desk: Services): readonly Route[] {
  return [
    ...executionRoutes(desk),
    ...auditRoutes(desk),
    ...controlRoutes(desk),
    ...eventRoutes(desk),
    ...taskRoutes(desk),
    ...workflowRoutes(desk),
    ...commandRoutes(desk),
    ...scheduleRoutes(desk),
    stateRoute(desk),
    ...nodeRoutes(desk),
    ...overviewRoutes(desk),
    ringRoute(desk),
    ...deadLetterRoutes(desk),
    ...deadLetterGroupRoutes(desk),
    ...adminRoutes(desk),
    backupRoute(desk),
    ...healthRoutes(desk),
  ];
}
