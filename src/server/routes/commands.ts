/** Routes for command workflows of a project: they are submitted, listed and read as documents. */
import { z } from "@hono/zod-openapi";
import { checkCommandProject, parseSubmission } from "../../commands/parse-submission.ts";
import { DamagedData } from "../../kernel/journal/damage.ts";
import { type CheckedList, checkList } from "../../protocol/check-request.ts";
import type { WorkflowDocument } from "../../protocol/command-document.ts";
import { isRejection, type Rejection, reject } from "../../std/rejection.ts";
import type { StoredHead } from "../../store/store.ts";
import { type Caller, seesProject } from "../auth/caller.ts";
import { bytes, json } from "../route.ts";
import { projectDocumentSchema, submissionSchema, workflowDocumentSchema } from "../schemas/commands.ts";
import { cursor, executionId, limit, name, PAGE_CHARS } from "../schemas/paging.ts";
import { hash } from "../schemas/workflow.ts";
import { readCommands } from "../services/command-reader.ts";
import type { KnownDefinition } from "../services/definitions.ts";
import { type Hashes, hasHashes, listByHash } from "../services/find-by-hash.ts";
import { type Submitted, submitAll } from "../services/submit-commands.ts";
import { inspectFor, routesOf, type Services } from "./services.ts";

const route = routesOf("commands");
const PATH = "/v1/projects/{project}/workflows";
const projectParams = z.strictObject({ project: name.openapi({ example: "project-x" }) });
const pageQuery = z.strictObject({
  workflow_hash: hash.optional().describe("only workflows whose commands have this hash"),
  cmd_hash: hash.optional().describe("only workflows that have a command with this hash"),
  limit: limit(),
  cursor,
});

/** The most heads that are read at a time, and the most for one page. A project can have many executions without commands. */
const HEADS = 500;
const HEADS_MAX = 5_000;
/** The most documents that are read at the same time. */
const READ_TOGETHER = 4;

const submitRoute = route({
  id: "submitCommands",
  request: `POST ${PATH}`,
  summary: "Submit command workflows",
  description:
    "The workflows are durable when the request is answered. Commands are sent one after another, each when the one before is complete. A submission `{ steps }` is answered with one workflow, a project document with a project document. Submitting the same workflow under the same `workflow_id` again returns the existing one; another workflow under that id is a conflict. Without a `workflow_id`, the id is derived from the Idempotency-Key. A document is checked as a whole before any workflow of it is started.",
  access: "operator",
  params: projectParams,
  body: submissionSchema,
  headers: {
    "Idempotency-Key": "for workflows without an id: each workflow is started once for each key and project",
    traceparent: "W3C trace context, passed on to the commands",
  },
  answers: {
    201: {
      description: "they are started",
      schema: z.union([workflowDocumentSchema, projectDocumentSchema]),
    },
    200: {
      description: "the workflows exist already, with the same commands",
      schema: z.union([workflowDocumentSchema, projectDocumentSchema]),
    },
  },
  refusals: ["conflict", "not_storable", "too_large", "too_deep"],
  audit: "commands.submit",
  async handle(ask, services) {
    const { caller } = ask;
    const { project } = ask.params;
    if (!seesProject(caller, project)) return notBound(caller);
    const submission = parseSubmission(ask.body, project);
    if (isRejection(submission)) return submission;
    const started = await submitAll(services, {
      submission,
      project,
      caller,
      key: ask.idempotencyKey,
      trace: ask.trace,
    });
    if (isRejection(started)) return started;
    ask.target(
      started
        .map(({ id }) => id)
        .join(" ")
        .slice(0, 200),
      project,
    );
    const read = await Promise.all(started.map((one) => documentOfStart(services, one)));
    const refusal = read.find(isRejection);
    if (refusal !== undefined) return refusal;
    const documents = read as readonly WorkflowDocument[];
    const [first] = started;
    const status = started.every(({ existed }) => existed) ? 200 : 201;
    if (submission.isDocument) return json({ [project]: { workflows: documents } }, { status });
    const location = `/v1/projects/${project}/workflows/${first?.id ?? ""}`;
    return json(documents[0] as WorkflowDocument, { status, headers: { location } });
  },
});

const listRoute = route({
  id: "listCommands",
  request: `GET ${PATH}`,
  summary: "List the command workflows of a project, the newest first",
  description:
    "The list has only workflows that were submitted as documents. A page can be short or empty without being the last; only the last page has no `next`.",
  access: "viewer",
  params: projectParams,
  query: pageQuery,
  answers: { 200: { description: "a page", schema: projectDocumentSchema } },
  handle: ({ params: { project }, query, caller }, services) =>
    listCommands(services, caller, { project, ...query }),
});

const getRoute = route({
  id: "getCommands",
  request: `GET ${PATH}/{id}`,
  summary: "Get the commands of a workflow, with their results",
  description: "Works for any execution of the project that has commands, however the execution was started.",
  access: "viewer",
  params: projectParams.extend({ id: executionId }),
  answers: { 200: { description: "the workflow", schema: workflowDocumentSchema } },
  async handle({ params: { project, id }, caller }, services) {
    const found = await inspectFor(services, caller, id);
    if (isRejection(found)) return found;
    if (found.view.project !== project)
      return reject("not_found", `there is no execution ${id} in the project "${project}"`);
    const document = await readCommands(services, found);
    const { damage } = found.view;
    if (isRejection(document) && damage !== undefined) throw new DamagedData({ ...damage, execution: id });
    return isRejection(document) ? document : json(document);
  },
});

function notBound(caller: Caller): Rejection {
  return reject("forbidden", `${caller.name} is bound to the project "${caller.project}"`, {
    path: "project",
  });
}

type PageQuery = z.output<typeof pageQuery> & { readonly project: string };

async function listCommands(services: Services, caller: Caller, query: PageQuery) {
  const { project } = query;
  if (!seesProject(caller, project)) return json({ [project]: { workflows: [] }, next: null });
  const { workflow_hash: workflowHash, cmd_hash: cmdHash, ...list } = query;
  const hashes = { workflowHash, cmdHash };
  const checked = checkCommandProject(project) ?? checkList(list);
  if (isRejection(checked)) return checked;
  const page = await findSubmitted(services, hashes, checked);
  const texts: string[] = [];
  let chars = 0;
  let from = 0;
  for (; from < page.heads.length && chars < PAGE_CHARS; from += READ_TOGETHER) {
    const together = page.heads.slice(from, from + READ_TOGETHER).map(({ id }) => documentOf(services, id));
    for (const document of await Promise.all(together)) {
      // A purged execution is left out of the list. If the owner of an execution cannot be reached, the whole list is refused.
      if (isRejection(document) && document.code !== "not_found") return document;
      if (isRejection(document)) continue;
      const text = JSON.stringify(document);
      texts.push(text);
      chars += text.length;
    }
  }
  const next = from < page.heads.length ? String(page.heads[from - 1]?.order) : page.next;
  const body = `{${JSON.stringify(project)}:{"workflows":[${texts.join(",")}]},"next":${JSON.stringify(next)}}`;
  return bytes(body);
}

/** Reads an execution that a submission has started, or that existed before. */
function documentOfStart(services: Services, started: Submitted): Promise<WorkflowDocument | Rejection> {
  const { id, existed, known, own, view, commands } = started;
  // For a new execution, the answer to the start already has the commands; none is sent yet. So the execution is not read again.
  if (existed || commands === undefined) return documentOf(services, id, known);
  return readCommands(services, { view, commands }, known, own);
}

/** Reads an execution as a document. `known` is its definition, if the caller has it. */
async function documentOf(
  services: Services,
  id: string,
  known?: KnownDefinition,
): Promise<WorkflowDocument | Rejection> {
  const found = await services.engine.inspect(id);
  return isRejection(found) ? found : readCommands(services, found, known);
}

/**
 * Finds heads of executions that were submitted as command documents, and the cursor after them. It skips a bounded number of
 * other executions.
 */
async function findSubmitted(
  services: Services,
  hashes: Hashes,
  { filter, before, max }: CheckedList,
): Promise<{ heads: StoredHead[]; next: string | null }> {
  const found: StoredHead[] = [];
  let at = before;
  for (let seen = 0; seen < HEADS_MAX; seen += HEADS) {
    const page = await listByHash(services, hashes, { filter, before: at, max: HEADS });
    for (const head of page.heads) {
      if (found.length === max) return { heads: found, next: String(at) };
      at = head.order;
      if (await hasHashes(services, head, hashes)) found.push(head);
    }
    if (page.next === null) return { heads: found, next: null };
    at = page.next;
  }
  return { heads: found, next: String(at) };
}

export const commandRoutes = [submitRoute, listRoute, getRoute];
