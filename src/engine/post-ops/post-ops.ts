/** The port through which an engine performs post-operations. */
import type { BroadcastPlan, PersistencePlan } from "../../kernel/command/command-plan.ts";
import type { PostOpRef } from "../../kernel/event.ts";
import type { PostOpOutcome } from "../../kernel/message.ts";

export type PostOpTask = Omit<PostOpRef, "op"> & {
  /** The id of the post-operation, which is the same for all tries. It is sent to the target. */
  readonly id: string;
  readonly execution: string;
  readonly project: string;
  readonly workflow: string;
  /** The number of the try, from 1. */
  readonly attempt: number;
} & (
    | { readonly op: "persistence"; readonly plan: PersistencePlan }
    | { readonly op: "broadcast"; readonly plan: BroadcastPlan }
  );

/** Performs post-operations. The result of the command is in the event with the number `receipt`. An error counts as a failed try. */
export interface PostOps {
  perform(task: PostOpTask, signal: AbortSignal): Promise<PostOpOutcome>;
}
