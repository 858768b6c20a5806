/**
 * Implements the operations by requests of the HTTP API. A client sends them to its server, a program with its own engine to
 * the API in its process.
 */
import { checkFilter, checkMove, checkOptionsOf } from "../protocol/check-request.ts";
import { flag, integer, object, oneOf, optional, refusal, text } from "../std/decode.ts";
import { defined } from "../std/defined.ts";
import { RondoError, unwrap } from "../std/rejection.ts";
import { checkWorkflow } from "./check.ts";
import type {
  BulkAction,
  BulkChanged,
  BulkOptions,
  DeadLetter,
  DeadLetterGroup,
  DeadLettersChanged,
  ExecutionFilter,
  Operations,
  Page,
  RefusedChange,
  ScheduleView,
  VersionView,
  WorkerView,
} from "./operations.ts";
import { validateInput } from "./validate-input.ts";
import type { AnyWorkflow } from "./workflow.ts";

/** A request of the HTTP API whose answer is JSON. */
export interface ApiRequest {
  readonly method?: "GET" | "POST" | "DELETE";
  readonly query?: Readonly<Record<string, string | number | boolean | undefined>>;
  readonly body?: unknown;
  /** A key with which the server applies the request only once. */
  readonly idempotencyKey?: string;
  /** Whether the request can be repeated without harm. */
  readonly isRepeatable?: boolean;
}

/** Sends requests of the HTTP API. A refusal is thrown as a `RondoError`. */
export interface ApiPort {
  json<T>(path: string, request?: ApiRequest): Promise<T>;
}

export interface OperationParts {
  readonly api: ApiPort;
  /** Stores the definition of a workflow. With null: waits until the definitions of all served workflows are stored. */
  readonly register: (workflow: AnyWorkflow | null) => Promise<unknown>;
  readonly newId: () => string;
}

/** The most executions that one request changes. */
const BULK_MAX = 1_000;
/** The most versions of a workflow that are read with one request. */
const VERSIONS_PAGE = 200;

/** Makes the operations of a program from requests of the HTTP API. */
export function operationsOver({ api, register, newId }: OperationParts): Operations {
  const schedule = (id: string): string => `/v1/schedules/${encodeURIComponent(id)}`;
  const changeSchedule = (id: string, action: "pause" | "resume"): Promise<ScheduleView> =>
    api.json(`${schedule(id)}/${action}`, { method: "POST", isRepeatable: true });
  const letter = (id: number): string => `/v1/dead-letters/${encodeURIComponent(String(id))}`;
  const group = (id: string): string => `/v1/dead-letter-groups/${encodeURIComponent(id)}`;
  return {
    schedules: {
      async put(spec) {
        const { workflow } = spec;
        const isName = typeof workflow === "string" || workflow === undefined;
        if (!isName) checkWorkflow(workflow);
        const input = isName ? spec.input : JSON.parse(unwrap(await validateInput(workflow, spec.input)));
        await register(isName ? null : workflow);
        const body = { ...spec, input: input as unknown, workflow: isName ? workflow : workflow.name };
        return api.json<ScheduleView>("/v1/schedules", {
          method: "POST",
          body: defined(body),
          isRepeatable: true,
        });
      },
      get: (id) => api.json(schedule(id)),
      list: (options = {}) => api.json("/v1/schedules", { query: { ...options } }),
      pause: (id) => changeSchedule(id, "pause"),
      resume: (id) => changeSchedule(id, "resume"),
      async run(id, options = {}) {
        checkOptionsOf("schedules.run", { id: optional(text({ min: 1, max: 200 })) }, options);
        const idempotencyKey = options.id ?? newId();
        const { execution } = await api.json<{ execution: string }>(`${schedule(id)}/run`, {
          method: "POST",
          idempotencyKey,
        });
        return execution;
      },
      async delete(id) {
        await api.json(schedule(id), { method: "DELETE" });
      },
    },
    deadLetters: {
      list: (options = {}) => api.json<Page<DeadLetter>>("/v1/dead-letters", { query: { ...options } }),
      async groups(filter = {}) {
        const query = { ...filter };
        return (await api.json<Page<DeadLetterGroup>>("/v1/dead-letter-groups", { query })).data;
      },
      async retry(id) {
        await api.json(`${letter(id)}/retry`, { method: "POST", idempotencyKey: newId() });
      },
      retryGroup: (id, options = {}) =>
        api.json<DeadLettersChanged>(`${group(id)}/retry`, { method: "POST", body: { ...options } }),
      async drop(id, options = {}) {
        await api.json(`${letter(id)}/drop`, { method: "POST", body: { ...options } });
      },
      dropGroup: (id) => api.json<DeadLettersChanged>(`${group(id)}/drop`, { method: "POST" }),
    },
    workers: {
      list: async () => (await api.json<Page<WorkerView>>("/v1/workers")).data,
      async drain(id) {
        await api.json(`/v1/workers/${encodeURIComponent(id)}/drain`, { method: "POST" });
      },
    },
    tokenFor: (id, options = {}) =>
      api.json(`/v1/executions/${encodeURIComponent(id)}/tokens`, {
        method: "POST",
        body: defined({ ...options }),
      }),
    versions: (workflow) => versionsOf(api, register, workflow),
    bulk: (action, filter, options = {}) => bulk(api, action, filter, options),
  };
}

/** Reads all pages of the version log of a workflow. If a definition has several entries, the newest one counts. */
async function versionsOf(
  api: ApiPort,
  register: OperationParts["register"],
  workflow: string | AnyWorkflow,
): Promise<readonly VersionView[]> {
  if (typeof workflow !== "string") checkWorkflow(workflow);
  await register(null);
  const name = typeof workflow === "string" ? workflow : workflow.name;
  const versions = new Map<string, VersionView>();
  let cursor: string | undefined;
  do {
    const page: Page<VersionView> = await api.json(`/v1/workflows/${encodeURIComponent(name)}/versions`, {
      query: { limit: VERSIONS_PAGE, cursor },
    });
    for (const one of page.data) if (!versions.has(one.hash)) versions.set(one.hash, one);
    cursor = page.next ?? undefined;
  } while (cursor !== undefined);
  return [...versions.values()].sort((a, b) => Number(b.isNewest) - Number(a.isNewest));
}

const action = oneOf(["cancel", "pause", "resume", "retry", "move"]);
const bulkOptions = object(
  {
    dryRun: optional(flag),
    reason: optional(text()),
    limit: optional(integer(1)),
    version: optional(text()),
    hash: optional(text()),
  },
  { what: "bulk" },
);

/** Changes the executions that match, page by page. An execution that is started meanwhile is not changed. */
async function bulk(
  api: ApiPort,
  wanted: BulkAction,
  filter: ExecutionFilter,
  options: BulkOptions,
): Promise<BulkChanged> {
  const refused =
    refusal(action, wanted, { path: "action" }) ??
    checkFilter(filter) ??
    refusal(bulkOptions, options, { whole: "options" });
  if (refused !== null) throw new RondoError(refused);
  const { limit = Number.POSITIVE_INFINITY, dryRun, reason, version, hash } = options;
  if (wanted === "move") unwrap(checkMove(defined({ version, hash }), undefined));
  const { since, until, search, ...rest } = filter;
  const body = {
    action: wanted,
    filter: defined({ ...rest, q: search, from: timeOf(since), to: timeOf(until) }),
    ...defined({ dryRun, reason, version, hash }),
  };
  const ids: string[] = [];
  const not: RefusedChange[] = [];
  let matched = 0;
  let changed = 0;
  let cursor: string | null = null;
  do {
    const page: BulkChanged & { readonly next: string | null } = await api.json("/v1/executions/bulk", {
      method: "POST",
      body: { ...body, limit: Math.min(BULK_MAX, limit - matched), ...(cursor === null ? {} : { cursor }) },
    });
    matched += page.matched;
    changed += page.changed;
    ids.push(...page.ids);
    not.push(...page.refused);
    cursor = page.next;
  } while (cursor !== null && matched < limit);
  return { matched, changed, ids, refused: not };
}

/** Returns the URL parameters of a request that lists executions. */
export function listQuery(options: ExecutionFilter): NonNullable<ApiRequest["query"]> {
  const { search, since, until, status, tags, ...rest } = options;
  return {
    ...rest,
    ...defined({
      q: search,
      from: timeOf(since),
      to: timeOf(until),
      status: status === undefined || typeof status === "string" ? status : status.join(","),
      tags: tags === undefined ? undefined : JSON.stringify(tags),
    }),
  };
}

function timeOf(time: Date | number | undefined): number | undefined {
  return time === undefined ? undefined : Number(time);
}
