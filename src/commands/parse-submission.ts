/**
 * What is handed in as a submission, turned into workflows of commands or into a refusal that says what is wrong, where,
 * and what to do. Two shapes: `{ steps }`, and a whole project document, whose workflows are a map by id or a list.
 * What a reader of such documents finds in them (hashes, results, statuses, times) is taken and ignored, so that what
 * was read can be handed in again; anything else that is not known is refused. What a command itself may hold is the
 * definition's part (submission-definition.ts).
 */
import { LIMITS } from "../kernel/definition/definition.ts";
import { refuseExecutionId } from "../kernel/definition/names.ts";
import { type Json, toStoredText } from "../std/json.ts";
import { isRejection, type Rejection, reject } from "../std/rejection.ts";

/** One command as it was handed in, and where it goes. */
export interface SubmittedStep {
  /** `cmd_type`, and `cmd_data` and `cmd_metadata` where they are given. */
  readonly command: { readonly [field: string]: Json };
  readonly topic: Json;
  /** Options of its handler, as a definition has them. */
  readonly options: { readonly [option: string]: Json };
}

/** A workflow that was handed in. */
export interface SubmittedWorkflow {
  /** The id that it is to have; null: one is made up. */
  readonly id: string | null;
  readonly steps: readonly SubmittedStep[];
  /** Where it stands in what was handed in; empty: it is all of it. */
  readonly path: string;
}

/** All that one request hands in. */
export interface Submission {
  /** It came as a project document, and is answered as one. */
  readonly isDocument: boolean;
  readonly workflows: readonly SubmittedWorkflow[];
}

/** Workflows in one document. */
export const SUBMITTED_MAX = 100;
/** The name that would stand in the place of a page's cursor. */
const RESERVED_PROJECT = "next";

/** Refuses the one project that cannot be told from a document's cursor. */
export function checkCommandProject(project: string): Rejection | null {
  if (project !== RESERVED_PROJECT) return null;
  return reject("invalid_input", `project: "${RESERVED_PROJECT}" cannot have command workflows`, {
    path: "project",
    hint: "choose another name: documents have their cursor under this one",
  });
}

/** The workflows of a request to a project. */
export function parseSubmission(body: unknown, project: string): Submission | Rejection {
  const wrong = checkCommandProject(project);
  if (wrong !== null) return wrong;
  try {
    const fields = objectOf(body, "");
    return fields["steps"] === undefined && fields["workflow_id"] === undefined
      ? { isDocument: true, workflows: document(fields, project) }
      : { isDocument: false, workflows: [workflow(fields, "", null)] };
  } catch (thrown) {
    if (thrown instanceof Refused) return thrown.rejection;
    throw thrown;
  }
}

/** Carries a refusal out of nested parsing. */
class Refused extends Error {
  readonly rejection: Rejection;
  constructor(rejection: Rejection) {
    super(rejection.message);
    this.rejection = rejection;
  }
}

type Fields = Readonly<Record<string, unknown>>;

/** `{ [project]: { workflows } }`; the cursor of a page that was read is left alone. */
function document(fields: Fields, project: string): SubmittedWorkflow[] {
  const names = Object.keys(fields).filter((name) => name !== RESERVED_PROJECT);
  const [name] = names;
  if (name === undefined) throw refused("", "has neither steps nor a project", `send { "steps": [...] }`);
  const other = names.find((given) => given !== project);
  if (other !== undefined) {
    const isProject = isObject(fields[other]) && "workflows" in (fields[other] as object);
    throw isProject
      ? refused(other, `is not the project "${project}" that this is sent to`, "send each to its own project")
      : unknownField("", other, ["steps", "workflow_id", project]);
  }
  const { workflows } = known(fields[project], project, ["workflows"]);
  const at = `${project}.workflows`;
  const given: (readonly [path: string, id: string | null, value: unknown])[] = Array.isArray(workflows)
    ? workflows.map((value, i) => [`${at}[${i}]`, null, value] as const)
    : Object.entries(objectOf(workflows, at, "a list, or an object of workflows by id")).map(
        ([id, value]) => [`${at}.${id.slice(0, 60)}`, id, value] as const,
      );
  if (given.length === 0) throw refused(at, "is empty", "name at least one workflow");
  if (given.length > SUBMITTED_MAX)
    throw refused(
      at,
      `has ${given.length} workflows; at most ${SUBMITTED_MAX} are taken at a time`,
      "send several documents",
    );
  return given.map(([path, id, value]) => workflow(value, path, id));
}

/** `key` is what a map has it under. */
function workflow(value: unknown, path: string, key: string | null): SubmittedWorkflow {
  const fields = known(value, path, ["workflow_id", "steps"], ["workflow_hash", "dead_letters"]);
  const given = fields["workflow_id"];
  if (key !== null && given !== undefined && given !== key)
    throw refused(join(path, "workflow_id"), "is not what it stands under", "leave one of the two out");
  const id = given ?? key;
  const wrong = id === null ? null : refuseExecutionId(id);
  if (wrong !== null) {
    const at = given === undefined ? path : join(path, "workflow_id");
    throw refused(at, wrong.message.replace(/^id: /, ""), wrong.hint);
  }
  const steps = fields["steps"];
  const at = join(path, "steps");
  if (!Array.isArray(steps)) throw refused(at, "must be a list of steps");
  if (steps.length === 0) throw refused(at, "is empty", "a workflow has at least one step");
  if (steps.length > LIMITS.phases)
    throw refused(at, `has ${steps.length} steps; at most ${LIMITS.phases} are allowed`);
  return { id: id as string | null, path, steps: steps.map((one, i) => step(one, `${at}[${i}]`)) };
}

/** What a reader finds in `proc`, and a sender need not say. */
const PROC_READ = [
  "proc_status",
  "proc_err",
  "post_ops",
  "tasks",
  "utc_created_timestamp",
  "utc_started_timestamp",
  "utc_receipted_timestamp",
];

function step(value: unknown, path: string): SubmittedStep {
  const { cmd, proc } = known(value, path, ["cmd", "proc"]);
  const { target_topic_name, receipt_topic_name, retry, timeout } = known(
    proc,
    `${path}.proc`,
    ["target_topic_name", "receipt_topic_name", "retry", "timeout"],
    PROC_READ,
  );
  if (target_topic_name === undefined)
    throw refused(`${path}.proc.target_topic_name`, "is missing", "name the topic that the command goes to");
  const command = known(cmd, `${path}.cmd`, ["cmd_type", "cmd_data", "cmd_metadata"], ["cmd_result"]);
  const text = toStoredText(command, { bytesMax: LIMITS.taskBytes, what: `${path}.cmd` });
  if (isRejection(text)) throw new Refused(text);
  const options = { receiptTopic: receipt_topic_name, retry, timeout };
  return {
    command: JSON.parse(text) as SubmittedStep["command"],
    topic: target_topic_name as Json,
    options: Object.fromEntries(
      Object.entries(options).filter(([, option]) => option !== undefined && option !== null),
    ) as SubmittedStep["options"],
  };
}

/** The fields of an object that count; those in `ignored` are dropped, and others are refused. */
function known(
  value: unknown,
  path: string,
  counted: readonly string[],
  ignored: readonly string[] = [],
): Fields {
  const fields = objectOf(value, path);
  const kept: Record<string, unknown> = {};
  for (const [key, member] of Object.entries(fields)) {
    if (counted.includes(key)) kept[key] = member;
    else if (!ignored.includes(key)) throw unknownField(path, key, counted);
  }
  return kept;
}

function objectOf(value: unknown, path: string, what = "an object"): Fields {
  if (isObject(value)) return value as Fields;
  throw refused(path, value === undefined ? "is missing" : `must be ${what}`);
}

function isObject(value: unknown): boolean {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function refused(path: string, why: string, hint?: string): Refused {
  return new Refused(
    reject("invalid_input", path === "" ? `the body ${why}` : `${path}: ${why}`, {
      ...(path === "" ? {} : { path: path.slice(0, 200) }),
      ...(hint === undefined ? {} : { hint }),
    }),
  );
}

function unknownField(path: string, field: string, counted: readonly string[]): Refused {
  const at = join(path, field.slice(0, 60)).slice(0, 200);
  return new Refused(
    reject("unknown_field", `${at}: there is no such field`, {
      path: at,
      hint: `known are: ${counted.join(", ")}`,
    }),
  );
}

function join(path: string, field: string): string {
  return path === "" ? field : `${path}.${field}`;
}
