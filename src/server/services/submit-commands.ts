/** Starts submitted command documents: each workflow becomes a definition and an execution. */
import type { Submission, SubmittedWorkflow } from "../../commands/parse-submission.ts";
import { COMMANDS_TAG, inDocument, submissionDefinition } from "../../commands/submission-definition.ts";
import type { TopicGuard } from "../../commands/topic-guard.ts";
import { isRejection, type Rejection, reject } from "../../std/rejection.ts";
import type { Caller } from "../auth/caller.ts";
import { idTaken, keyedId } from "../routes/services.ts";
import type { Definitions, KnownDefinition } from "./definitions.ts";
import type { ExecutionStarter, Started } from "./start-executions.ts";

export interface SubmitParts {
  readonly definitions: Definitions;
  readonly starts: ExecutionStarter;
  readonly topics: Pick<TopicGuard, "admit">;
}

export interface SubmitRequest {
  readonly submission: Submission;
  readonly project: string;
  readonly caller: Caller;
  /** The Idempotency-Key of the request. */
  readonly key: string | null;
  readonly trace: string | null;
}

interface Prepared {
  readonly workflow: SubmittedWorkflow;
  readonly known: KnownDefinition;
  readonly workflowHash: string;
  /** Whether the definition was not stored before the request. */
  readonly isNew: boolean;
}

/** Starts all workflows of a submission, or none if one of them is invalid. */
export async function submitAll(
  parts: SubmitParts,
  request: SubmitRequest,
): Promise<readonly Started[] | Rejection> {
  const { workflows } = request.submission;
  const twice = workflows.find(
    ({ id }, i) => id !== null && workflows.findIndex((other) => other.id === id) < i,
  );
  if (twice !== undefined)
    return reject("invalid_input", `${twice.path}: the id ${twice.id} is used twice`, { path: twice.path });
  const prepared: Prepared[] = [];
  for (const workflow of workflows) {
    const made = submissionDefinition(workflow);
    if (isRejection(made)) return made;
    const put = await parts.definitions.put(made.definition);
    if (isRejection(put)) return inDocument(put, workflow.path);
    const refusal = await parts.topics.admit(request.project, put.known.plan.commands);
    if (refusal !== null) return inDocument(refusal, workflow.path);
    prepared.push({ workflow, ...put, workflowHash: made.workflowHash });
  }
  const started: Started[] = [];
  for (const [i, one] of prepared.entries()) {
    const begun = await submitOne(parts, one, { ...request, i });
    if (isRejection(begun)) return afterOthers(begun, started);
    // An unused definition may have been deleted just before it got an execution again.
    if (!one.isNew) await parts.definitions.put(one.known.definition);
    started.push(begun);
  }
  return started;
}

async function submitOne(
  { starts }: SubmitParts,
  { workflow, known, workflowHash }: Prepared,
  { project, caller, key, trace, i }: SubmitRequest & { readonly i: number },
): Promise<Started | Rejection> {
  const at = workflow.path === "" ? "workflow_id" : `${workflow.path}.workflow_id`;
  const id = workflow.id ?? (key === null ? undefined : keyedId(project, key, `commands ${i}`));
  const started = await starts.begin(known, "{}", {
    ...(id === undefined ? {} : { id }),
    project,
    tags: { [COMMANDS_TAG]: workflowHash },
    trace,
    isAdmitted: true,
  });
  if (isRejection(started)) return started.code === "conflict" ? idTaken(caller, started, at) : started;
  if (started.view.project !== project)
    return idTaken(caller, reject("conflict", `execution ${started.id} exists in another project`), at);
  // The name of the definition depends on the commands alone, so the hash is compared too: it covers topics and retries.
  if (started.existed && started.view.workflowHash !== known.hash)
    return idTaken(
      caller,
      reject("conflict", `execution ${started.id} exists with other topics or options`),
      at,
    );
  return started;
}

/** Adds to a rejection the names of the workflows that were started before it. */
function afterOthers(refusal: Rejection, started: readonly Started[]): Rejection {
  if (started.length === 0) return refusal;
  const ids = started.map(({ id }) => id).join(", ");
  return { ...refusal, message: `${refusal.message}; the workflows before it were started: ${ids}` };
}
