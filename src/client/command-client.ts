/** Command workflows at a server: handed in as documents, and read back as such. */
import type {
  ProjectDocument,
  ProjectSubmission,
  WorkflowDocument,
  WorkflowSubmission,
} from "../protocol/command-document.ts";
import { newExecutionId } from "../std/id.ts";
import type { RemoteParts } from "./remote-handle.ts";

/** How a submission is made. */
export interface SubmitOptions {
  /** The same key in the same project submits once; made up by default, so that a broken connection does no harm. */
  readonly idempotencyKey?: string;
}

/** Which command workflows to read. */
export interface CommandsOptions {
  readonly limit?: number;
  /** The `next` of the page before. */
  readonly cursor?: string;
}

/** A page of command workflows, newest first; it can be short, and `next` is null on the last. */
export interface CommandsPage {
  readonly workflows: readonly WorkflowDocument[];
  readonly next: string | null;
}

/** What a client can do with command workflows. */
export interface CommandClient {
  /** Hands in a workflow of commands; resolved when that is durable. */
  submit(project: string, workflow: WorkflowSubmission, options?: SubmitOptions): Promise<WorkflowDocument>;
  /** Hands in all workflows of a project document, and gives them as one. */
  submit(project: string, document: ProjectSubmission, options?: SubmitOptions): Promise<ProjectDocument>;
  /** One workflow as a document, by its id. */
  submitted(project: string, id: string): Promise<WorkflowDocument>;
  /** The command workflows of a project. */
  commands(project: string, options?: CommandsOptions): Promise<CommandsPage>;
}

/** The client of command workflows over a connection. */
export function commandClient({ requester, clock, random }: RemoteParts): CommandClient {
  return {
    submit<T>(project: string, given: unknown, { idempotencyKey: key }: SubmitOptions = {}) {
      const newId = (): string => newExecutionId(clock.now(), random);
      // A repetition finds what the first try started: by an id that is made here, or by a key.
      const body = key === undefined && isWorkflow(given) ? { workflow_id: newId(), ...given } : given;
      const once = isWorkflow(body) && body.workflow_id !== undefined;
      return requester.json<T>(pathOf(project), {
        method: "POST",
        body,
        ...(once && key === undefined ? { isRepeatable: true } : { idempotencyKey: key ?? newId() }),
      });
    },
    submitted: (project, id) => requester.json(`${pathOf(project)}/${encodeURIComponent(id)}`),
    async commands(project, { limit, cursor } = {}) {
      const page = await requester.json<ProjectDocument>(pathOf(project), { query: { limit, cursor } });
      const { workflows } = page[project] as { readonly workflows: readonly WorkflowDocument[] };
      return { workflows, next: page["next"] as string | null };
    },
  };
}

/** One workflow, not a whole document. */
function isWorkflow(given: unknown): given is WorkflowSubmission {
  return typeof given === "object" && given !== null && "steps" in given;
}

function pathOf(project: string): string {
  return `/v1/projects/${encodeURIComponent(project)}/workflows`;
}
