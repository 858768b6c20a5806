/** Checks a report of a sandbox process before it is used, because a script may have taken over the process. */
import { z } from "zod";
import type { ChildReport } from "./child/messages.ts";

const run = z.int().nonnegative();
const amount = z.number().nonnegative();

const REPORT = z.discriminatedUnion("kind", [
  z.strictObject({ kind: z.literal("ready") }),
  z.strictObject({ kind: z.literal("run_started"), run }),
  z.strictObject({
    kind: z.literal("log"),
    run,
    level: z.enum(["debug", "info", "warn", "error"]),
    text: z.string(),
  }),
  z.strictObject({
    kind: z.literal("run_finished"),
    run,
    state: z.string(),
    durationMs: amount,
    memoryBytes: amount,
  }),
  z.strictObject({
    kind: z.literal("run_failed"),
    run,
    name: z.string(),
    message: z.string(),
    line: z.int().positive().nullable(),
    fatal: z.boolean(),
  }),
  z.strictObject({ kind: z.literal("run_killed"), run, limit: z.enum(["time", "memory"]) }),
  z.strictObject({
    kind: z.literal("probed"),
    findings: z.strictObject({
      environment: z.array(z.string()),
      connected: z.boolean(),
      readFile: z.boolean(),
      wroteFile: z.boolean(),
      sawProcess: z.boolean(),
      startedProcess: z.boolean(),
    }),
  }),
]);

export type CheckedReport = z.infer<typeof REPORT>;

/** Reads the report in a line; null if it cannot come from the unchanged code of the sandbox process. */
export function readReport(line: string): CheckedReport | null {
  let value: unknown;
  try {
    value = JSON.parse(line);
  } catch {
    // The line is not JSON, so the code of the sandbox process has not written it.
    return null;
  }
  const report = REPORT.safeParse(value);
  return report.success ? (report.data satisfies ChildReport) : null;
}
