/** The CPU time and memory of processes of this machine, as Linux tells them. */
import { existsSync, readFileSync } from "node:fs";

/** The clock ticks per second in /proc. */
const TICKS = 100;

/** The CPU time of a process so far, of all threads, in milliseconds; 0 if it is not on this machine. */
export function cpuMsOf(pid: number | undefined): number {
  // The name is in brackets and may contain any character, so the fields begin after it.
  const fields = procFile(pid, "stat")
    .replace(/^.*\) /s, "")
    .split(" ");
  return ((Number(fields[11] ?? 0) + Number(fields[12] ?? 0)) * 1_000) / TICKS;
}

export function peakRssMbOf(pid: number | undefined): number {
  return Number(/^VmHWM:\s+(\d+) kB/m.exec(procFile(pid, "status"))?.[1] ?? Number.NaN) / 1_024;
}

function procFile(pid: number | undefined, file: string): string {
  const path = `/proc/${pid}/${file}`;
  return pid !== undefined && existsSync(path) ? readFileSync(path, "utf8") : "";
}
