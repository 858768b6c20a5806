/** Facts about the machine, without which figures say nothing. */
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
  /** The median of 4 KiB appended and synced. */
  readonly fdatasyncP50Ms: number;
  /** How much slower it is just now than an idle one with a quick disk: by what else runs, or by its syncs. */
  readonly slowness: number;
}

/** A sync on the machine that the goals are for. */
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
