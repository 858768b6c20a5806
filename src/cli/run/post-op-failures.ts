/** Finds the post-operations of a submitted workflow that failed or are still being tried. `rondo submit` prints them. */
import type { RemoteRondo } from "../../client/connect.ts";
import type { WorkflowDocument } from "../../protocol/command-document.ts";
import { systemClock } from "../../std/clock.ts";
import { sleep } from "../../std/within.ts";
import type { Screen } from "../progress/screen.ts";
import { readPages } from "../server/read-pages.ts";

/** A post-operation that has become a dead letter, as `--json` prints it. */
export interface FailedPostOp {
  /** The id of the dead letter. */
  readonly id: number;
  readonly step: number;
  readonly op: string;
  /** The URL of a broadcast, or the name of the state store. */
  readonly target: string;
  readonly error: unknown;
}

/** A workflow document with the dead letters of its post-operations. */
export interface ReportedWorkflow extends WorkflowDocument {
  readonly dead_letters?: readonly FailedPostOp[];
}

interface FailedBroadcast {
  readonly id: number;
  readonly postOp: { readonly step: number; readonly op: string; readonly target: string } | null;
  readonly tasks: readonly { readonly error: unknown }[];
}

const DEAD_LETTERS_MAX = 1_000;
const POLL_MS = 100;
const POLLS_MAX = 50;

/** Reads a workflow that has ended. It waits until each broadcast was tried once, for 5 s at most. */
export async function readEnded(rondo: RemoteRondo, project: string, id: string): Promise<ReportedWorkflow> {
  let document = await rondo.submitted(project, id);
  for (let polls = 0; polls < POLLS_MAX && isUntried(document); polls++) {
    await sleep(systemClock({ hold: true }), POLL_MS);
    document = await rondo.submitted(project, id);
  }
  return withDeadLetters(rondo, document);
}

/** Adds the dead letters of post-operations to a document. Only a command with a receipt can have dead letters. */
export async function withDeadLetters(
  { requester }: RemoteRondo,
  document: WorkflowDocument,
): Promise<ReportedWorkflow> {
  if (document.steps.every(({ proc }) => proc.utc_receipted_timestamp === null)) return document;
  const failed: FailedPostOp[] = [];
  const query = { execution: document.workflow_id };
  for await (const { id, postOp, tasks } of readPages<FailedBroadcast>(
    requester,
    "/v1/dead-letters",
    query,
    DEAD_LETTERS_MAX,
  ))
    if (postOp !== null) failed.push({ id, ...postOp, error: tasks[0]?.error ?? null });
  return failed.length === 0 ? document : { ...document, dead_letters: failed };
}

/** Prints the dead letters, and post-operations that are still being retried. `retry` returns the command that retries a dead letter. */
export function printPostOpFailures(
  { workflow_id: id, steps, dead_letters: failed = [] }: ReportedWorkflow,
  screen: Screen,
  retry: (letter: number) => string,
): void {
  if (failed.length > 0) {
    const count = failed.length === 1 ? "1 post-operation" : `${failed.length} post-operations`;
    screen.print(
      ["!", "yellow"],
      ` ${id}: ${count} failed for good; the workflow continued without waiting for success`,
    );
  }
  for (const { id: letter, step, op, target, error } of failed) {
    screen.print(`  step ${step}, ${op} to ${target}: ${messageOf(error)}`);
    screen.print(`    to try this post-operation again: ${retry(letter)}`);
  }
  for (const [step, { proc }] of steps.entries())
    for (const { op, target, error } of proc.post_ops ?? [])
      screen.print(`  step ${step}, ${op} to ${target} is still tried${error === null ? "" : `: ${error}`}`);
}

function isUntried({ steps }: WorkflowDocument): boolean {
  return steps.some(({ proc }) => (proc.post_ops ?? []).some(({ attempts }) => attempts === 0));
}

function messageOf(error: unknown): string {
  const message = (error as { message?: unknown } | null)?.message;
  return typeof message === "string" ? message : JSON.stringify(error);
}
