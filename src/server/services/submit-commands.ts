/** Starts submitted command documents: each workflow becomes a definition and an execution. */
import type { Submission, SubmittedWorkflow } from "../../commands/parse-submission.ts";
import { COMMANDS_TAG, inDocument, submissionDefinition } from "../../commands/submission-definition.ts";
import type { TopicGuard } from "../../commands/topic-guard.ts";
import type { PlannedCommand } from "../../kernel/definition/plan.ts";
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
}

export interface Submitted extends Started {
  readonly known: KnownDefinition;
}

/** Starts all workflows of a submission, or none if one of them is invalid. Definitions and starts share commits. */
export async function submitAll(
  parts: SubmitParts,
  request: SubmitRequest,
): Promise<readonly Submitted[] | Rejection> {
  const prepared = await prepareAll(parts, request);
  if (isRejection(prepared)) return prepared;
  const before = await parts.definitions.putAll(prepared.map(({ known }) => known));
  if (isRejection(before)) return before;
  const begun = await Promise.all(prepared.map((one, i) => submitOne(parts, one, { ...request, i })));
  // A definition that existed before may have been deleted by retention just before its new execution started, so it is stored again.
  const old = prepared.map(({ known }) => known).filter(({ hash }) => before.has(hash));
  const again = old.length === 0 ? before : await parts.definitions.putAll(old);
  if (isRejection(again)) return again;
  const started = begun.filter((one): one is Submitted => !isRejection(one));
  const refusal = begun.find(isRejection);
  return refusal === undefined ? started : besideOthers(refusal, started);
}

/** Makes the definitions of all workflows, and checks them and their topics. */
async function prepareAll(
  { definitions, topics }: SubmitParts,
  { submission: { workflows }, project }: SubmitRequest,
): Promise<readonly Prepared[] | Rejection> {
  const ids = new Set<string>();
  const admitted = new Set<string>();
  const prepared: Prepared[] = [];
  for (const workflow of workflows) {
    const { id, path } = workflow;
    if (id !== null && ids.has(id))
      return reject("invalid_input", `${path}: the id ${id} is used twice`, { path });
    if (id !== null) ids.add(id);
    const made = submissionDefinition(workflow);
    if (isRejection(made)) return made;
    const known = await definitions.compile(made.definition);
    if (isRejection(known)) return inDocument(known, path);
    // A document has few topics, and each is checked once.
    const unchecked = known.plan.commands.filter(({ command }) => !admitted.has(topicsOf(command)));
    const refusal = unchecked.length === 0 ? null : await topics.admit(project, unchecked);
    if (refusal !== null) return inDocument(refusal, path);
    for (const { command } of unchecked) admitted.add(topicsOf(command));
    prepared.push({ workflow, known, workflowHash: made.workflowHash });
  }
  return prepared;
}

function topicsOf({ topic, receiptTopic }: PlannedCommand["command"]): string {
  return `${topic} ${receiptTopic}`;
}

async function submitOne(
  { starts }: SubmitParts,
  { workflow, known, workflowHash }: Prepared,
  { project, caller, key, trace, i }: SubmitRequest & { readonly i: number },
): Promise<Submitted | Rejection> {
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
  return { ...started, known };
}

/** Adds to a rejection the ids of the other workflows, which were started. */
function besideOthers(refusal: Rejection, started: readonly Started[]): Rejection {
  if (started.length === 0) return refusal;
  const ids = started.map(({ id }) => id).join(", ");
  return { ...refusal, message: `${refusal.message}; the other workflows were started: ${ids}` };
}
