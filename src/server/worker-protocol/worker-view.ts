import type { Overview } from "../../engine/io.ts";
import { topicOf } from "../../kernel/command/topic-rules.ts";
import type { WorkerSession } from "./worker-session.ts";

/** A worker as lists show it. */
export interface WorkerView {
  readonly id: string;
  readonly name: string;
  readonly kind: "local" | "remote";
  /** It gets tasks of this project only; null: of all. */
  readonly project: string | null;
  readonly capacity: number;
  readonly held: number;
  readonly handlers: readonly { readonly use: string; readonly version?: string }[];
  readonly topics: readonly string[];
  readonly version: string | null;
  readonly url: string | null;
  readonly lastSeenAt: number | null;
  /** What its process takes; null: it did not say. */
  readonly memoryBytes: number | null;
  readonly draining: boolean;
}

/** One as the engine has it, with what its session knows of it; those inside of this process have none. */
export function viewWorker(
  { id, local, capacity, held, serves }: Overview["workers"][number],
  session: WorkerSession | undefined,
): WorkerView {
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
