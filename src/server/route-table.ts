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
export function routeTable(services: Services): readonly Route[] {
  return [
    ...executionRoutes(services),
    ...auditRoutes(services),
    ...controlRoutes(services),
    ...eventRoutes(services),
    ...taskRoutes(services),
    ...workflowRoutes(services),
    ...commandRoutes(services),
    ...scheduleRoutes(services),
    stateRoute(services),
    ...nodeRoutes(services),
    ...overviewRoutes(services),
    ringRoute(services),
    ...deadLetterRoutes(services),
    ...deadLetterGroupRoutes(services),
    ...adminRoutes(services),
    backupRoute(services),
    ...healthRoutes(services),
  ];
}
