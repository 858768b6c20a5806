/** The flags of `rondo worker`, and the options made from them. */
import { hostname } from "node:os";
import { CliError } from "../cli-error.ts";
import { durationOf } from "../duration-flag.ts";
import { EXIT } from "../exit-code.ts";
import type { Flags, ServerFlags } from "../server/find-server.ts";

export type WorkerFlags = ServerFlags &
  Flags<
    | "socket"
    | "broker"
    | "prefix"
    | "capacity"
    | "name"
    | "spool"
    | "statusPort"
    | "grace"
    | "min"
    | "max"
    | "sample",
    "unsafeNoJail"
  >;

export interface WorkerSettings {
  readonly capacity: number;
  readonly name: string;
  readonly spool: string | null;
  readonly statusPort: number;
  readonly graceMs: number;
  /** The minimum and maximum number of worker processes; null if this process is the only worker. */
  readonly scale: { readonly min: number; readonly max: number } | null;
  readonly sampleMs: number;
}

const CAPACITY = 100;
const GRACE = "25s";
const SAMPLE = "1s";
const PROCESSES_MAX = 1_000;

/** Checks the flags of a worker. Throws if one of them is wrong. */
export function readWorkerFlags(flags: WorkerFlags): WorkerSettings {
  const graceMs = durationOf(flags.grace ?? GRACE, "--grace");
  const isScaled = flags.min !== undefined || flags.max !== undefined;
  const min = count(flags.min ?? "1", "--min", [1, PROCESSES_MAX]);
  const max = count(flags.max ?? `${min}`, "--max", [1, PROCESSES_MAX]);
  if (min > max) throw new CliError(EXIT.usage, `--min ${min} must not be more than --max ${max}`);
  const name = flags.name ?? `${plainName(hostname())}-${process.pid}`;
  if (!/^[A-Za-z0-9][A-Za-z0-9_.-]{0,39}$/.test(name))
    throw new CliError(EXIT.usage, `--name "${name}": must have 1 to 40 of the characters A-Z a-z 0-9 _ . -`);
  return {
    capacity: flags.capacity === undefined ? CAPACITY : count(flags.capacity, "--capacity", [1, 100_000]),
    name,
    spool: flags.spool ?? null,
    statusPort: count(flags.statusPort ?? "0", "--status-port", [0, 65_535]),
    graceMs,
    scale: isScaled ? { min, max } : null,
    sampleMs: Math.max(10, durationOf(flags.sample ?? SAMPLE, "--sample")),
  };
}

function count(text: string, flag: string, [least, most]: readonly [number, number]): number {
  const value = /^\d+$/.test(text) ? Number(text) : Number.NaN;
  if (value >= least && value <= most) return value;
  throw new CliError(EXIT.usage, `${flag} ${text}: must be a number from ${least} to ${most}`);
}

function plainName(host: string): string {
  const plain = host.replaceAll(/[^A-Za-z0-9_.-]/g, "-").replace(/^[^A-Za-z0-9]+/, "");
  return plain === "" ? "worker" : plain.slice(0, 30);
}
