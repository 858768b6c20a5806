/** Facts about the machine, without which figures say nothing. */
import { availableParallelism, cpus } from "node:os";
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
}

export function describeMachine({ directory, fileSystem }: Workspace): Machine {
  const probe = new SyncProbe(directory);
  const syncs = Array.from({ length: SYNCS }, () => probe.time());
  probe.close();
  return {
    cores: availableParallelism(),
    processor: cpus()[0]?.model.trim() ?? "unknown",
    node: process.version,
    platform: `${process.platform} ${process.arch}`,
    store: `file:${directory}`,
    fileSystem,
    fdatasyncP50Ms: median(syncs),
  };
}
