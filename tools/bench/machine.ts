/** Facts about the machine that figures depend on. */
import { availableParallelism, cpus, loadavg } from "node:os";
import { SyncProbe } from "./raw-disk.ts";
import { median } from "./statistics.ts";
import type { Workspace } from "./workspace.ts";

const SYNCS = 200;

export interface Machine {
  readonly cores: number;
  readonly processor: string;
  readonly node: string;
  readonly platform: string;
  readonly store: string;
  readonly fileSystem: string;
  /** The median time of an append of 4 KiB with its sync. */
  readonly fdatasyncP50Ms: number;
  /** How much slower the machine is now than an idle one with a fast disk, because of other load or slow syncs. */
  readonly slowness: number;
}

/** The sync time of the machine that the goals are for. */
const QUICK_SYNC_MS = 0.3;

export function describeMachine({ directory, fileSystem }: Workspace, database: string | null): Machine {
  const probe = new SyncProbe(directory);
  const syncs = Array.from({ length: SYNCS }, () => probe.time());
  probe.close();
  const cores = availableParallelism();
  const fdatasyncP50Ms = median(syncs);
  return {
    cores,
    processor: cpus()[0]?.model.trim() ?? "unknown",
    node: process.version,
    platform: `${process.platform} ${process.arch}`,
    store: database ?? `file:${directory}`,
    fileSystem,
    fdatasyncP50Ms,
    slowness: Math.max(1, (loadavg()[0] ?? 0) / cores, fdatasyncP50Ms / QUICK_SYNC_MS),
  };
}
