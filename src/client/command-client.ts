/** Submits command workflows to a server as documents, and reads them back as documents. */
import type {
  ProjectDocument,
  ProjectSubmission,
  WorkflowDocument,
  WorkflowSubmission,
} from "../protocol/command-document.ts";
import { newExecutionId } from "../std/id.ts";
import type { RemoteParts } from "./remote-handle.ts";

/** Options of `CommandClient.submit`. */
export interface SubmitOptions {
  /**
   * The idempotency key of the submission. A second submission with the same key in the same project changes nothing.
   *
   * @default a new key
   */
  readonly idempotencyKey?: string;
}

/** Options of `CommandClient.commands`: which page of command workflows to read. */
export interface CommandsOptions {
  /**
   * The largest number of workflows on one page, from 1 to 1,000.
   *
   * @default 50
   */
  readonly limit?: number;
  /**
   * The cursor of the page to read: the field `next` of the page before it.
   *
   * @default the first page
   */
  readonly cursor?: string;
}

/** A page of command workflows, newest first. `next` is null on the last page. */
export interface CommandsPage {
  /** The workflows, newest first. A page can have fewer than `limit` and still not be the last. */
  readonly workflows: readonly WorkflowDocument[];
  /** The `cursor` of the next page; null on the last page. */
  readonly next: string | null;
}

/** Submits and reads command workflows. */
export interface CommandClient {
  /**
   * Submits a workflow of commands. The promise resolves when the workflow is stored.
   *
   * @throws RondoError if the document is wrong or the project may not use one of its topics
   * @example await client.submit("billing", { steps: [{ cmd: { cmd_type: "pay" }, proc: { target_topic_name: "PAY_CMD" } }] });
   */
  submit(project: string, workflow: WorkflowSubmission, options?: SubmitOptions): Promise<WorkflowDocument>;
  /** Submits all workflows of a project document, and returns them as one document. */
  submit(project: string, document: ProjectSubmission, options?: SubmitOptions): Promise<ProjectDocument>;
  /** Reads a submitted workflow by its id. */
  submitted(project: string, id: string): Promise<WorkflowDocument>;
  /** Reads a page of the submitted workflows of a project. */
  commands(project: string, options?: CommandsOptions): Promise<CommandsPage>;
}

/** Makes the client of command workflows over a connection to a server. */
export function commandClient({ requester, clock, random }: RemoteParts): CommandClient {
  return {
    submit<T>(project: string, given: unknown, { idempotencyKey: key }: SubmitOptions = {}) {
      const newId = (): string => newExecutionId(clock.now(), random);
      // The workflow id or idempotency key is generated once, so that a repeated request does not submit the workflow twice.
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

/** Whether a submission is a single workflow; otherwise it is a whole project document. */
function isWorkflow(given: unknown): given is WorkflowSubmission {
  return typeof given === "object" && given !== null && "steps" in given;
}

function pathOf(project: string): string {
  return `/v1/projects/${encodeURIComponent(project)}/workflows`;
}
