import { adminRoutes } from "./routes/admin.ts";
import { alertRoutes } from "./routes/alerts.ts";
import { attentionRoute } from "./routes/attention.ts";
import { auditRoutes } from "./routes/audit.ts";
import { backupRoute } from "./routes/backup.ts";
import { commandRoutes } from "./routes/commands.ts";
import { controlRoutes } from "./routes/controls.ts";
import { deadLetterGroupRoutes } from "./routes/dead-letter-groups.ts";
import { deadLetterRoutes } from "./routes/dead-letters.ts";
import { eventRoutes } from "./routes/events.ts";
import { executionTokenRoute } from "./routes/execution-tokens.ts";
import { executionRoutes } from "./routes/executions.ts";
import { healthRoutes } from "./routes/health.ts";
import { mcpRoute } from "./routes/mcp.ts";
import { nodeRoutes } from "./routes/node.ts";
import { overviewRoutes } from "./routes/overview.ts";
import { queueRoutes } from "./routes/queues.ts";
import { ringRoute } from "./routes/ring.ts";
import { scheduleRoutes } from "./routes/schedules.ts";
import { sentEventRoutes } from "./routes/sent-events.ts";
import { stateRoute } from "./routes/state.ts";
import { streamRoutes } from "./routes/streams.ts";
import { taskRoutes } from "./routes/tasks.ts";
import { workflowRoutes } from "./routes/workflows.ts";

/** All routes of the API except the routes of the worker protocol. */
export const ROUTES = [
  ...executionRoutes,
  executionTokenRoute,
  ...auditRoutes,
  ...controlRoutes,
  ...eventRoutes,
  ...streamRoutes,
  ...sentEventRoutes,
  ...taskRoutes,
  ...workflowRoutes,
  ...commandRoutes,
  ...scheduleRoutes,
  stateRoute,
  ...nodeRoutes,
  ...queueRoutes,
  ...overviewRoutes,
  ringRoute,
  attentionRoute,
  ...alertRoutes,
  ...deadLetterRoutes,
  ...deadLetterGroupRoutes,
  ...adminRoutes,
  backupRoute,
  mcpRoute,
  ...healthRoutes,
];
