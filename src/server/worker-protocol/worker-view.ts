import type { Overview } from "../../engine/io.ts";
import { topicOf } from "../../kernel/command/topic-rules.ts";
import type { Worker } from "../schemas/worker.ts";
import type { WorkerSession } from "./worker-session.ts";

/** One as the engine has it, with what its session knows of it; those inside of this process have none. */
export function viewWorker(
  { id, local, capacity, held, serves }: Overview["workers"][number],
  session: WorkerSession | undefined,
): Worker {
  const handlers = serves.filter(({ use }) => topicOf(use) === null);
  return {
    id,
    name: session?.registration.name ?? id,
    kind: local ? "local" : "remote",
    project: session?.registration.project ?? null,
    capacity,
    held,
    handlers: handlers.map(({ use, version }) => (version === undefined ? { use } : { use, version })),
    topics: serves.flatMap(({ use }) => topicOf(use) ?? []),
    version: session?.registration.version ?? null,
    url: session?.registration.url ?? null,
    lastSeenAt: session?.lastSeenAt ?? null,
    memoryBytes: local ? process.memoryUsage.rss() : (session?.memoryBytes ?? null),
    draining: session?.isDraining ?? false,
  };
}
