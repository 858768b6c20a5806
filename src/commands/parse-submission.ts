/**
 * Decodes a submission of commands. It has one of two shapes: `{ steps }`, or a whole project document, whose workflows are a map by id
 * or a list. A document that was read from the API can be submitted again: its hashes, results, statuses and times are ignored. Other
 * unknown fields are refused. The commands themselves are checked when the definition is made (submission-definition.ts).
 */
import { LIMITS } from "../kernel/definition/definition.ts";
import { executionId } from "../kernel/definition/names.ts";
import {
  anything,
  at,
  type Decode,
  decode,
  type Fields,
  fieldsOf,
  listOf,
  mapOf,
  mapped,
  object,
  optional,
  orNull,
  parsed,
  show,
  Undecodable,
  unknownField,
  where,
} from "../std/decode.ts";
import { defined } from "../std/defined.ts";
import { type Json, toStoredText } from "../std/json.ts";
import { isRejection, type Rejection, reject } from "../std/rejection.ts";

/** One submitted command with its topics. */
export interface SubmittedStep {
  /** The command's `cmd_type`, and its `cmd_data` and `cmd_metadata` if they are given. */
  readonly command: { readonly [field: string]: Json };
  readonly topic: Json;
  /** Options of the command's handler, with the same names as in a definition. */
  readonly options: { readonly [option: string]: Json };
}

export interface SubmittedWorkflow {
  /** The wanted id of the execution; null if an id is to be generated. */
  readonly id: string | null;
  readonly steps: readonly SubmittedStep[];
  /** The path of the workflow in the submission; empty if the workflow is the whole submission. */
  readonly path: string;
}

export interface Submission {
  /** Whether the submission is a project document. The answer then is a project document too. */
  readonly isDocument: boolean;
  readonly workflows: readonly SubmittedWorkflow[];
}

/** The most workflows in one document. */
export const SUBMITTED_MAX = 1_000;
/** A name that projects may not have, because documents use it for the cursor of their page. */
const RESERVED_PROJECT = "next";

/** Refuses the project whose name is reserved for the cursor. */
export function checkCommandProject(project: string): Rejection | null {
  if (project !== RESERVED_PROJECT) return null;
  return reject(
    "invalid_input",
    `project: "${RESERVED_PROJECT}" is reserved and cannot have command workflows`,
    {
      path: "project",
      hint: "choose another name: documents use this name for the cursor of their page",
    },
  );
}

export function parseSubmission(body: unknown, project: string): Submission | Rejection {
  const wrong = checkCommandProject(project);
  if (wrong !== null) return wrong;
  const found = decode((given) => submission(given, project), body);
  return isRejection(found) && found.path === undefined
    ? { ...found, message: `the body: ${found.message}` }
    : found;
}

/** Fields of `proc` that documents have when they are read from the API. A submission may leave them out. */
const PROC_READ = [
  "proc_status",
  "proc_err",
  "post_ops",
  "tasks",
  "utc_created_timestamp",
  "utc_started_timestamp",
  "utc_receipted_timestamp",
];

const proc = object(
  {
    target_topic_name: where<Json>(
      "the name of a topic",
      (value) => value !== undefined,
      "name the topic to which the command is sent",
    ),
    receipt_topic_name: anything as Decode<Json | undefined>,
    retry: anything as Decode<Json | undefined>,
    timeout: anything as Decode<Json | undefined>,
  },
  { ignores: PROC_READ },
);

const command = mapped(
  parsed(
    object({ cmd_type: anything, cmd_data: anything, cmd_metadata: anything }, { ignores: ["cmd_result"] }),
    (fields) => toStoredText(fields, { bytesMax: LIMITS.taskBytes, what: "" }),
  ),
  (stored) => JSON.parse(stored) as SubmittedStep["command"],
);

const step: Decode<SubmittedStep> = mapped(object({ cmd: command, proc }), ({ cmd, proc }) => ({
  command: cmd,
  topic: proc.target_topic_name,
  options: defined({
    receiptTopic: proc.receipt_topic_name ?? undefined,
    retry: proc.retry ?? undefined,
    timeout: proc.timeout ?? undefined,
  }) as SubmittedStep["options"],
}));

const workflow = object(
  { workflow_id: optional(orNull(executionId)), steps: listOf(step, { min: 1, max: LIMITS.phases }) },
  { ignores: ["workflow_hash", "dead_letters"] },
);

const workflowList = listOf(workflow, { min: 1, max: SUBMITTED_MAX });
const workflowMap = mapOf(anything, { min: 1, max: SUBMITTED_MAX });

/** Returns the workflows of a document, each with its path in the list or the map. */
const workflows: Decode<readonly SubmittedWorkflow[]> = (value) => {
  if (Array.isArray(value))
    return workflowList(value).map(({ workflow_id, steps }, i) => ({
      id: workflow_id ?? null,
      steps,
      path: `[${i}]`,
    }));
  if (fieldsOf(value) === null)
    throw new Undecodable(`${show(value)} is neither a list of workflows nor an object with workflows by id`);
  return Object.entries(workflowMap(value)).map(([id, one]) => at(id, (given) => underId(id, given), one));
};

const projectDocument = object({ workflows });

/** Decodes a workflow in a map. Its key in the map is its id. */
function underId(id: string, value: unknown): SubmittedWorkflow {
  const given = fieldsOf(value)?.["workflow_id"];
  if (given !== undefined && given !== id)
    throw new Undecodable(`${show(given)} differs from ${show(id)}, the key of this workflow`, {
      path: "workflow_id",
      hint: "leave out workflow_id, or use the same id as the key",
    });
  const { steps } = workflow(value);
  return { id: executionId(id), steps, path: `.${id.slice(0, 60)}` };
}

function submission(body: unknown, project: string): Submission {
  const fields = fieldsOf(body);
  if (fields === null) throw new Undecodable(`${show(body)} is not an object`);
  if (fields["steps"] === undefined && fields["workflow_id"] === undefined)
    return { isDocument: true, workflows: document(fields, project) };
  const { workflow_id = null, steps } = workflow(body);
  return { isDocument: false, workflows: [{ id: workflow_id, steps, path: "" }] };
}

/** Decodes `{ [project]: { workflows } }`. The cursor of a document that was read from the API is ignored. */
function document(fields: Fields, project: string): SubmittedWorkflow[] {
  const names = Object.keys(fields).filter((name) => name !== RESERVED_PROJECT);
  if (names.length === 0)
    throw new Undecodable("the submission has neither steps nor a project", {
      hint: 'send { "steps": [...] }',
    });
  const other = names.find((given) => given !== project);
  if (other !== undefined) {
    if (fieldsOf(fields[other])?.["workflows"] === undefined)
      throw unknownField(other, ["steps", "workflow_id", project]);
    throw new Undecodable(`is not the project "${project}" to which the document was submitted`, {
      path: other.slice(0, 60),
      hint: "submit the workflows of each project separately",
    });
  }
  const found = at(project, projectDocument, fields[project]);
  return found.workflows.map((one) => ({ ...one, path: `${project}.workflows${one.path}` }));
}
