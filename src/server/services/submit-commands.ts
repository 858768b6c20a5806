/** Starts submitted command documents: each workflow becomes an execution, and each shape of workflows a definition. */
import type { Submission, SubmittedWorkflow } from "../../commands/parse-submission.ts";
import {
  COMMANDS_TAG,
  inDocument,
  type ShapedSubmission,
  shapeDefinition,
  shapedSubmission,
  submissionDefinition,
} from "../../commands/submission-definition.ts";
import type { TopicGuard } from "../../commands/topic-guard.ts";
import type { EnginePort } from "../../engine/engine-port.ts";
import type { OwnCommand } from "../../kernel/command/own-command.ts";
import { definitionHash, GIVEN_COMMANDS_SINCE, type PlannedCommand } from "../../kernel/definition/plan.ts";
import { isRejection, type Rejection, reject } from "../../std/rejection.ts";
import type { Caller } from "../auth/caller.ts";
import { idTaken, keyedId } from "../routes/services.ts";
import type { Definitions, KnownDefinition } from "./definitions.ts";
import type { ExecutionStarter, Started } from "./start-executions.ts";

export interface SubmitParts {
  readonly definitions: Definitions;
  readonly starts: ExecutionStarter;
  readonly topics: Pick<TopicGuard, "admit">;
  readonly engine: Pick<EnginePort, "inspect" | "reads">;
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
  /** The input of the execution, as JSON text. */
  readonly input: string;
  readonly workflowHash: string;
  /** The commands of the workflow, if they are in the input. */
  readonly own?: readonly OwnCommand[];
}

export interface Submitted extends Started {
  readonly known: KnownDefinition;
  readonly own?: readonly OwnCommand[];
}

/** Starts all workflows of a submission, or none if one of them is invalid. Definitions and starts share commits. */
export async function submitAll(
  parts: SubmitParts,
  request: SubmitRequest,
): Promise<readonly Submitted[] | Rejection> {
  const prepared = await prepareAll(parts, request);
  if (isRejection(prepared)) return prepared;
  const before = await parts.definitions.putMissing(prepared.map(({ known }) => known));
  const begun = await Promise.all(prepared.map((one, i) => submitOne(parts, one, { ...request, i })));
  parts.definitions.noteStarted(prepared.flatMap(({ known }, i) => (isRejection(begun[i]) ? [] : known)));
  // A definition that existed before may have been deleted by retention just before its new execution started, so it is stored again.
  const old = prepared.map(({ known }) => known).filter(({ hash }) => before.has(hash));
  if (old.length > 0) await parts.definitions.putAll(old);
  const started = begun.filter((one): one is Submitted => !isRejection(one));
  const refusal = begun.find(isRejection);
  return refusal === undefined ? started : besideOthers(refusal, started);
}

/** Makes the definitions of all workflows, and checks them and their topics. */
async function prepareAll(
  parts: SubmitParts,
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
    const made = await prepare(parts, workflow);
    if (isRejection(made)) return made;
    const { known } = made;
    // A document has few topics, and each is checked once.
    const unchecked = known.plan.commands.filter(({ command }) => !admitted.has(topicsOf(command)));
    const refusal = unchecked.length === 0 ? null : await parts.topics.admit(project, unchecked);
    if (refusal !== null) return inDocument(refusal, path);
    for (const { command } of unchecked) admitted.add(topicsOf(command));
    prepared.push(made);
  }
  return prepared;
}

/** Makes the definition and the input of a workflow, or the reason why it is refused. */
async function prepare(
  { definitions, engine }: SubmitParts,
  workflow: SubmittedWorkflow,
): Promise<Prepared | Rejection> {
  const shaped = engine.reads >= GIVEN_COMMANDS_SINCE ? shapedSubmission(workflow) : null;
  const shape = shaped === null ? undefined : definitions.shape(shaped.key);
  if (shaped !== null && shape !== undefined) return { workflow, known: shape, ...inputOf(shaped) };
  // The first document of a shape is checked as a whole. For the others, parsing has checked what differs.
  const made = submissionDefinition(workflow);
  if (isRejection(made)) return made;
  const added =
    shaped === null
      ? null
      : await definitions.addShape(shaped.key, shapeDefinition(made.definition, shaped.references));
  const known = added ?? (await definitions.compile(made.definition));
  if (isRejection(known)) return inDocument(known, workflow.path);
  if (shaped !== null && added !== null) return { workflow, known, ...inputOf(shaped) };
  return { workflow, known, input: "{}", workflowHash: made.workflowHash };
}

function inputOf({ input, own }: ShapedSubmission): Pick<Prepared, "input" | "own" | "workflowHash"> {
  return { input, own, workflowHash: own[0]?.workflowHash ?? "" };
}

function topicsOf({ topic, receiptTopic }: PlannedCommand["command"]): string {
  return `${topic} ${receiptTopic}`;
}

async function submitOne(
  parts: SubmitParts,
  prepared: Prepared,
  { project, caller, key, trace, i }: SubmitRequest & { readonly i: number },
): Promise<Submitted | Rejection> {
  const { workflow, known, input, workflowHash, own } = prepared;
  const at = workflow.path === "" ? "workflow_id" : `${workflow.path}.workflow_id`;
  const id = workflow.id ?? (key === null ? undefined : keyedId(project, key, `commands ${i}`));
  const started = await parts.starts.begin(known, input, {
    ...(id === undefined ? {} : { id }),
    project,
    tags: { [COMMANDS_TAG]: workflowHash },
    trace,
    isAdmitted: true,
  });
  if (isRejection(started)) {
    if (started.code !== "conflict") return started;
    const found = id === undefined ? null : await sameCommands(parts, prepared, { id, project });
    if (found === null) return idTaken(caller, started, at);
    return isRejection(found) ? idTaken(caller, found, at) : found;
  }
  if (started.view.project !== project)
    return idTaken(caller, reject("conflict", `execution ${started.id} exists in another project`), at);
  // The name of the definition may depend on the commands alone, so the hash is compared too: it covers topics and retries.
  if (started.existed && started.view.workflowHash !== known.hash)
    return idTaken(caller, otherOptions(started.id), at);
  return { ...started, known, ...(own === undefined ? {} : { own }) };
}

/**
 * Finds the execution that has the id of a workflow, if it has the same commands: the same workflow that was stored in the other
 * form of definitions, or a rejection if its topics or options differ. Null if the execution has other commands.
 */
async function sameCommands(
  { engine, definitions }: SubmitParts,
  { workflow, workflowHash }: Prepared,
  { id, project }: { readonly id: string; readonly project: string },
): Promise<Submitted | Rejection | null> {
  const found = await engine.inspect(id);
  if (isRejection(found) || found.view.project !== project) return null;
  if (found.view.tags?.[COMMANDS_TAG] !== workflowHash) return null;
  const made = submissionDefinition(workflow);
  if (isRejection(made)) return made;
  const shaped = shapedSubmission(workflow);
  const forms = [made.definition];
  if (shaped !== null) forms.push(shapeDefinition(made.definition, shaped.references));
  if (!forms.some((form) => definitionHash(form) === found.view.workflowHash)) return otherOptions(id);
  const known = await definitions.byHash(found.view.workflowHash);
  return isRejection(known) ? known : { id, existed: true, view: found.view, known };
}

function otherOptions(id: string): Rejection {
  return reject("conflict", `execution ${id} exists with other topics or options`);
}

/** Adds to a rejection the ids of the other workflows, which were started. */
function besideOthers(refusal: Rejection, started: readonly Started[]): Rejection {
  if (started.length === 0) return refusal;
  const ids = started.map(({ id }) => id).join(", ");
  return { ...refusal, message: `${refusal.message}; the other workflows were started: ${ids}` };
}
