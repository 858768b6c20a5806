/** Where the task failed that an execution failed by: the line of user code, and what to do about it. */
import { relative, sep } from "node:path";
import { fileURLToPath } from "node:url";
import type { ExecutionView } from "../../kernel/view.ts";
import { packageRoot } from "../../package-root.ts";
import type { ExecutionHandle } from "../../sdk/handle.ts";

/** An error as a task stored it; user code decides what is in it. */
type StoredError = Readonly<Record<string, unknown>>;

/** A failing task is settled among the last events of an execution. */
const LOOK_BACK = 100;

/** Lines about it; none if nothing more is known. */
export async function failureLines(handle: ExecutionHandle<unknown>, view: ExecutionView): Promise<string[]> {
  if (view.error?.task === undefined) return [];
  const error = await findError(handle, view);
  if (error === null) return [];
  const { stack, run, line, hint } = error;
  const frame = typeof stack === "string" ? userFrame(stack) : null;
  return [
    ...(frame === null ? [] : [`at ${frame}`]),
    ...(typeof run === "string"
      ? [`in the run "${run}"${typeof line === "number" ? `, line ${line}` : ""}`]
      : []),
    ...(typeof hint === "string" && hint !== "" ? [hint] : []),
  ];
}

/** The first frame of a stack that is neither ours nor the runtime's: `file:line:column`, as short as it can be. */
export function userFrame(stack: string): string | null {
  for (const text of stack.split("\n")) {
    const place = /^\s+at (?:.*\()?((?:file:\/\/)?[^()]+?):(\d+):(\d+)\)?$/.exec(text);
    const [, file, line, column] = place ?? [];
    if (file === undefined || file.startsWith("node:")) continue;
    const path = file.startsWith("file://") ? fileURLToPath(file) : file;
    const isOurs = ["dist", "src", "node_modules"].some((folder) =>
      path.startsWith(packageRoot + folder + sep),
    );
    if (isOurs) continue;
    const short = relative(process.cwd(), path);
    return `${short.startsWith("..") ? path : short}:${line}:${column}`;
  }
  return null;
}

async function findError(
  handle: ExecutionHandle<unknown>,
  { error, revision }: ExecutionView,
): Promise<StoredError | null> {
  let found: StoredError | null = null;
  for await (const event of handle.events({ from: Math.max(1, revision - LOOK_BACK), detail: "full" })) {
    if (event.kind !== "workflow.tasks.settled") continue;
    if (event["phase"] !== error?.phase || event["handler"] !== error?.handler) continue;
    const rows = (event["tasks"] ?? []) as readonly { n: number; error?: StoredError | null }[];
    found = rows.find(({ n, error: stored }) => n === error?.task && stored)?.error ?? found;
  }
  return found;
}
