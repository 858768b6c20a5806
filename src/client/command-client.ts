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
  /**
   * Names the submission: a second one with the same key in the same project changes nothing.
   *
   * @default a new key
   */
  readonly idempotencyKey?: string;
}

/** Which command workflows to read. */
export interface CommandsOptions {
  /**
   * The most workflows of one page, from 1 to 1,000.
   *
   * @default 50
   */
  readonly limit?: number;
  /**
   * The `next` of the page before.
   *
   * @default the first page
   */
  readonly cursor?: string;
}

/** A page of command workflows, newest first; it can be short, and `next` is null on the last. */
export interface CommandsPage {
  /** The workflows, newest first. A page can have fewer than `limit` and still not be the last. */
  readonly workflows: readonly WorkflowDocument[];
  /** The `cursor` of the next page; null on the last page. */
  readonly next: string | null;
}

/** What a client can do with command workflows. */
export interface CommandClient {
  /**
   * Submits a workflow of commands. The promise resolves when it is durable.
   *
   * @throws RondoError if the document is wrong or the project may not use one of its topics
   * @example await client.submit("billing", { steps: [{ cmd: { cmd_type: "pay" }, proc: { target_topic_name: "PAY_CMD" } }] });
   */
  submit(project: string, workflow: WorkflowSubmission, options?: SubmitOptions): Promise<WorkflowDocument>;
  /** Submits all workflows of a project document, and gives them as one document. */
  submit(project: string, document: ProjectSubmission, options?: SubmitOptions): Promise<ProjectDocument>;
  /** Reads a submitted workflow by its id. */
  submitted(project: string, id: string): Promise<WorkflowDocument>;
  /** Reads a page of the submitted workflows of a project. */
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
