// Command workflows in tests: documents, and what is read of them over HTTP.
import type { ProcDocument, StepDocument, StepSubmission, WorkflowDocument } from "rondo/client";
import { expect } from "vitest";
import { type Api, folder, type Got, serve, until } from "../../server/api-bench.ts";

/** The project of tests. */
export const P = "project-x";
/** The kind of events that tell of receipts. */
export const RECEIPTED = "workflow.command.receipted";

/** A server over the embedded store. */
export function served(): Promise<Api> {
  return serve({ store: `file:${folder()}` });
}

/** Hands in a workflow of these steps. */
export async function submit(api: Api, id: string, ...steps: unknown[]): Promise<void> {
  const got = await api.post(pathOf(P), { steps, workflow_id: id });
  expect(got.status).toBe(201);
}

/** The first example of the documents that command workflows come from, as it stands there. */
export const EXAMPLE = {
  cmd: {
    cmd_type: "EMBED_REPO",
    cmd_data: {},
    cmd_metadata: {
      repo_name: "Lxi",
      user_id: "usr@lxi.com",
      workflow_hash: "3f2912a8b44767729b997a753ec6632b37949443befc03c53c622d8c6e9b030f",
      cmd_hash: "791f5a868b2942f61968452b1f5535908c698ba5641ccc2004fae73622c3a884",
      cmd_post_op: {
        cmd_result_broadcasts: [
          {
            url: "http://lxi-ui-api:6001/broadcast",
            static_payload: { message: "Repo has been embedded.", user_id: "usr@lxi.com" },
          },
        ],
      },
    },
    cmd_result: {},
  },
  proc: {
    target_topic_name: "LEXI_CMD_EMBED",
    proc_status: "PENDING",
    proc_err: null,
    utc_created_timestamp: "2021-09-29T09:00:00.000Z",
  },
};

/** A step that is tried again at once. */
export function step(type: string, topic: string, more: Record<string, unknown> = {}): StepSubmission {
  const { cmd_data, cmd_metadata, ...proc } = more;
  return {
    cmd: {
      cmd_type: type,
      ...(cmd_data === undefined ? {} : { cmd_data }),
      ...(cmd_metadata === undefined ? {} : { cmd_metadata }),
    },
    proc: { target_topic_name: topic, retry: { attempts: 3, min: 0, max: 0 }, ...proc },
  } as StepSubmission;
}

export function pathOf(project: string, id?: string): string {
  return `/v1/projects/${project}/workflows${id === undefined ? "" : `/${id}`}`;
}

/** The workflow of an answer. */
export function documentOf({ body }: Got): WorkflowDocument {
  return body as unknown as WorkflowDocument;
}

/** A workflow as it is read now. */
export async function read(api: Api, project: string, id: string): Promise<WorkflowDocument> {
  const got = await api.get(pathOf(project, id));
  if (got.status !== 200) throw new Error(got.text);
  return documentOf(got);
}

export function statuses({ steps }: WorkflowDocument): ProcDocument["proc_status"][] {
  return steps.map(({ proc }) => proc.proc_status);
}

/** Waits until the steps of a workflow have these statuses. */
export async function reaches(
  api: Api,
  { project, id }: { project: string; id: string },
  wanted: readonly string[],
): Promise<readonly StepDocument[]> {
  let document: WorkflowDocument | undefined;
  await until(async () => {
    document = await read(api, project, id);
    return statuses(document).join() === wanted.join();
  });
  return document?.steps ?? [];
}

/** The workflows of a page. */
export function pageOf({ body }: Got, project: string): { ids: string[]; next: string | null } {
  const page = body as unknown as Record<string, { workflows: WorkflowDocument[] }> & { next: string | null };
  return {
    ids: (page[project]?.workflows ?? []).map(({ workflow_id }) => workflow_id),
    next: page["next"],
  };
}

/** A command as a worker over HTTP gets it. */
export interface Work {
  readonly attempt: string;
  readonly token: string;
  readonly do: string;
  readonly n: number;
  readonly idempotencyKey: string;
  readonly task: {
    readonly cmd_type: string;
    readonly cmd_data: unknown;
    readonly cmd_metadata: Readonly<Record<string, unknown>> & {
      readonly rondo: { workflow_id: string; step: number; attempt: string; token: string };
    };
  };
}

/** A worker that speaks the protocol word by word, and says what the test has it say. */
export class TopicWorker {
  readonly #api: Api;
  readonly #id: string;

  private constructor(api: Api, id: string) {
    this.#api = api;
    this.#id = id;
  }

  static async register(api: Api, ...topics: string[]): Promise<TopicWorker> {
    const { body } = await api.post("/v1/workers", { name: "topics", handlers: [], topics, capacity: 10 });
    return new TopicWorker(api, body["worker"] as unknown as string);
  }

  /** Commands as they come; nothing if there are none within `waitMs`. */
  async claim(max = 1, waitMs = 10_000): Promise<Work[]> {
    const { body } = await this.#api.post(`/v1/workers/${this.#id}/claim`, { max, waitMs });
    return body["work"] as unknown as Work[];
  }

  async claimOne(): Promise<Work> {
    const [work] = await this.claim();
    if (work === undefined) throw new Error("there is no work");
    return work;
  }

  /** Sends a receipt; gives the verdict, or what the refusal says. */
  async receipt(work: Pick<Work, "attempt" | "token">, receipt: Record<string, unknown>): Promise<string> {
    const { attempt, token } = work;
    const { status, body } = await this.#api.post(`/v1/workers/${this.#id}/events`, {
      tokens: { [attempt]: token },
      events: [{ attempt, n: 1, kind: "receipt", ...receipt }],
    });
    if (status !== 200) return body["code"] as unknown as string;
    return (body["verdicts"] as unknown as Record<string, string>)[attempt] ?? "none";
  }

  done(work: Pick<Work, "attempt" | "token">, result: unknown): Promise<string> {
    return this.receipt(work, { status: "done", result });
  }

  failed(work: Pick<Work, "attempt" | "token">, message: string): Promise<string> {
    return this.receipt(work, { status: "failed", error: { name: "Error", message } });
  }
}

/** The journal of an execution, by kind. */
export async function eventsOf(api: Api, id: string, kind: string): Promise<Record<string, unknown>[]> {
  const { body } = await api.get(`/v1/executions/${id}/events?limit=1000&detail=full`);
  return (body["data"] as unknown as Record<string, unknown>[]).filter((event) => event["kind"] === kind);
}
