/**
 * Asks all nodes of the cluster for facts that only each node itself knows. The header `Rondo-Missing` names nodes that did not
 * answer.
 */
import { z } from "@hono/zod-openapi";
import type { RingView } from "../cluster/ring/io.ts";
import type { AttemptFilter, Holdings, OpenAttempt } from "../engine/io.ts";
import { READY_WORKFLOWS_MAX } from "../engine/views/overview.ts";
import type { HttpAnswer, HttpRequest } from "../net/http-connection.ts";
import { decodeAttempt } from "../protocol/attempt-id.ts";
import { defined } from "../std/defined.ts";
import { isRejection, type Rejection, reject } from "../std/rejection.ts";
import type { ApiParts } from "./parts.ts";
import { type Answer, type Ask, json, type Route } from "./route.ts";
import type { PulseSeconds } from "./schemas/node.ts";
import type { Worker } from "./schemas/worker.ts";
import { scalingOf } from "./worker-protocol/worker-views.ts";

/** A question to another node. */
export interface NodeQuestion {
  readonly v: 1;
  /** Asks for open attempts that match the filter. */
  readonly attempts?: AttemptFilter;
  /** Asks for the activity of this many seconds. */
  readonly pulse?: number;
  /** Asks when and where the node last saw the ring's token. */
  readonly token?: true;
  /** Asks the node to drain this worker, if the worker is registered there. */
  readonly drain?: string;
}

/** A worker of `GET /v1/workers`; other fields are passed on as its node sends them. */
type ShownWorker = Pick<Worker, "id" | "kind" | "capacity" | "held" | "lastSeenAt" | "draining">;

/** The answer of a node to a question. */
export interface NodeFacts {
  readonly overview: Holdings;
  readonly workers: readonly ShownWorker[];
  readonly attempts: readonly OpenAttempt[];
  readonly pulse?: PulseSeconds;
  readonly token?: RingView["token"];
  /** Whether the worker was registered at the node, which then drains it. */
  readonly drained: boolean;
}

/** The other nodes of a cluster, for the API. */
export interface OtherNodes {
  /** Asks all nodes; `facts` is null for a node that did not answer in time. Never throws. */
  ask(question: NodeQuestion): Promise<readonly { readonly url: string; readonly facts: NodeFacts | null }[]>;
  /** Sets the function that checks and answers the questions of other nodes. */
  serve(answer: (question: unknown) => Promise<NodeFacts | Rejection>): void;
  /**
   * Passes a request on to the node that owns the execution; `here` answers the request if this node has become the owner
   * meanwhile.
   */
  atOwner(
    execution: string,
    passed: {
      readonly here: () => Promise<Answer | null>;
      readonly request: HttpRequest;
      readonly read: (answer: HttpAnswer) => Answer;
    },
  ): Promise<{ readonly value: Answer } | Rejection>;
}

/** The facts of all nodes of the cluster, and the URLs of nodes that did not answer. */
export interface ClusterFacts {
  readonly nodes: readonly NodeFacts[];
  /** The header `Rondo-Missing`, which names nodes without an answer. */
  readonly headers: Readonly<Record<string, string>>;
}

const ATTEMPTS_MAX = 1_000;
/** The header of a request that another node passed on. Such a request is not passed on again. */
const PASSED_HEADER = "rondo-passed";

const questionSchema = z.strictObject({
  v: z.literal(1),
  attempts: z
    .strictObject({
      worker: z.string().nullable(),
      project: z.string().nullable().optional(),
      execution: z.string().nullable().optional(),
      max: z.number().int().min(1).max(1_000),
    })
    .optional(),
  pulse: z.number().int().min(1).max(900).optional(),
  token: z.literal(true).optional(),
  drain: z.string().max(200).optional(),
});

/** Returns the open attempts of an execution, at whichever node they are. Throws if a node that may have some does not answer. */
export async function attemptsOf(
  { engine, otherNodes }: Pick<ApiParts, "engine"> & { readonly otherNodes?: Pick<OtherNodes, "ask"> },
  execution: string,
): Promise<readonly OpenAttempt[]> {
  const attempts: AttemptFilter = { worker: null, execution, max: ATTEMPTS_MAX };
  if (otherNodes === undefined || engine.isOwn(execution)) return engine.openAttempts(attempts);
  const others = await otherNodes.ask({ v: 1, attempts });
  const silent = others.find(({ facts }) => facts === null);
  if (silent !== undefined)
    throw new Error(`node ${silent.url} did not answer which attempts of ${execution} are open`);
  return others.flatMap(({ facts }) => facts?.attempts ?? []);
}

/** All nodes of a cluster: this one and the others. */
export class AllNodes {
  readonly #parts: Pick<ApiParts, "engine" | "otherNodes" | "metrics" | "clock" | "ring">;
  readonly #routes: readonly Route[];

  /** `routes`: the worker routes that this node answers alone. */
  constructor(
    parts: Pick<ApiParts, "engine" | "otherNodes" | "metrics" | "clock" | "ring">,
    routes: readonly Route[],
  ) {
    this.#parts = parts;
    this.#routes = routes;
    parts.otherNodes?.serve(async (question) => {
      const parsed = questionSchema.safeParse(question);
      return parsed.success
        ? this.#own(parsed.data as NodeQuestion)
        : reject("invalid_input", "unknown question of another node");
    });
  }

  async ask(question: Omit<NodeQuestion, "v">): Promise<ClusterFacts> {
    const { otherNodes } = this.#parts;
    const asked = { v: 1, ...question } as const;
    const [own, others] = await Promise.all([this.#own(asked), otherNodes?.ask(asked) ?? []]);
    const missing = others.filter(({ facts }) => facts === null).map(({ url }) => url);
    return {
      nodes: [own, ...others.flatMap(({ facts }) => facts ?? [])],
      headers: missing.length === 0 ? {} : { "rondo-missing": missing.join(", ") },
    };
  }

  /** The worker routes, answered by all nodes together. */
  routes(): readonly Route[] {
    if (this.#parts.otherNodes === undefined) return this.#routes;
    const handlers: Readonly<Record<string, Route["handle"]>> = {
      listWorkers: async () => {
        const { nodes, headers } = await this.ask({});
        return json({ data: mergeWorkers(nodes.map(({ workers }) => workers)), next: null }, { headers });
      },
      getScaling: async (ask) => {
        const { nodes, headers } = await this.ask({});
        const { use = null } = ask.query as { use?: string };
        return json(scalingOf(mergeOverviews(nodes.map(({ overview }) => overview)), use), { headers });
      },
      drainWorker: async (ask) => {
        const { id } = ask.params as { id: string };
        const { nodes } = await this.ask({ drain: id });
        if (nodes.some(({ drained }) => drained))
          return json({ worker: id, draining: true }, { status: 202 });
        return this.#handle("drainWorker", { params: { id } });
      },
    };
    return this.#routes.map((route) => {
      const { id, access, method, handle } = route;
      const isSaid = access === "attempt" && method === "post";
      return { ...route, handle: handlers[id] ?? (isSaid ? (ask) => this.#atOwner(route, ask) : handle) };
    });
  }

  /** Passes a request of an attempt on to the owner of the attempt's execution. The attempt's token was checked before. */
  async #atOwner({ path, method, handle }: Route, ask: Ask): Promise<Answer> {
    const here = async (): Promise<Answer | null> => {
      const answer = await handle(ask);
      return answer.kind === "rejection" && answer.code === "not_owner" ? null : answer;
    };
    const answer = await here();
    if (answer !== null) return answer;
    const { id } = ask.params as { id: string };
    const { otherNodes } = this.#parts;
    const execution = decodeAttempt(id)?.execution;
    if (otherNodes === undefined || execution === undefined || ask.header(PASSED_HEADER) !== undefined)
      return reject("not_owner", "another node owns the execution of this attempt");
    const passed = await otherNodes.atOwner(execution, {
      here,
      request: {
        method: method.toUpperCase(),
        path: path.replace("{id}", encodeURIComponent(id)),
        headers: { authorization: `Bearer ${ask.bearer ?? ""}`, [PASSED_HEADER]: "1" },
        body: JSON.stringify(ask.body),
      },
      read: ({ status, headers, text }) => ({
        kind: "bytes",
        status,
        type: headers["content-type"] ?? "application/json",
        body: text,
      }),
    });
    return isRejection(passed) ? passed : passed.value;
  }

  async #own({ attempts, drain, pulse, token }: NodeQuestion): Promise<NodeFacts> {
    const { engine, metrics, clock, ring } = this.#parts;
    const listed = await this.#handle("listWorkers", {});
    const page = listed.kind === "json" ? (listed.body as { data: readonly ShownWorker[] }) : { data: [] };
    const told = drain === undefined ? null : await this.#handle("drainWorker", { params: { id: drain } });
    return {
      overview: engine.overview(),
      workers: page.data,
      attempts: attempts === undefined ? [] : engine.openAttempts(attempts),
      ...(pulse === undefined ? {} : { pulse: metrics.pulse.show(pulse, clock.now()) }),
      ...(token === undefined ? {} : { token: ring?.().ring.token ?? null }),
      drained: told?.kind === "json",
    };
  }

  /** Answers a worker route for this node alone. Worker routes read only the parameters of their paths. */
  async #handle(id: string, ask: Pick<Partial<Ask>, "params">): Promise<Answer> {
    const route = this.#routes.find((one) => one.id === id);
    return route === undefined
      ? reject("not_found", "this node serves no workers")
      : route.handle(ask as Ask);
  }
}

/** Merges the figures of several nodes. A worker with sessions at several nodes counts once. */
export function mergeOverviews(overviews: readonly Holdings[]): Holdings {
  const sum = (of: (overview: Holdings) => number): number =>
    overviews.reduce((all, overview) => all + of(overview), 0);
  return {
    workers: mergeWorkers(overviews.map(({ workers }) => workers)),
    limits: mergeBy(
      overviews.flatMap(({ limits }) => limits),
      ({ name }) => name,
      (a, b) => ({
        ...a,
        max: Math.max(a.max, b.max),
        held: a.held + b.held,
        waiting: a.waiting + b.waiting,
      }),
    ),
    resident: sum(({ resident }) => resident),
    working: sum(({ working }) => working),
    leases: sum(({ leases }) => leases),
    ready: mergeBy(
      overviews.flatMap(({ ready }) => ready),
      ({ use }) => use,
      (a, b) => ({
        use: a.use,
        tasks: a.tasks + b.tasks,
        ...defined({ since: earlier(a.since, b.since), workflows: some(a.workflows, b.workflows) }),
      }),
    ),
  };
}

/** Returns the earlier of two times. Nodes of earlier versions report no time. */
function earlier(a: number | undefined, b: number | undefined): number | undefined {
  return a === undefined || b === undefined ? (a ?? b) : Math.min(a, b);
}

/** Returns a few of the names of two lists. Nodes of earlier versions report none. */
function some(
  a: readonly string[] | undefined,
  b: readonly string[] | undefined,
): readonly string[] | undefined {
  if (a === undefined || b === undefined) return a ?? b;
  return [...new Set([...a, ...b])].sort().slice(0, READY_WORKFLOWS_MAX);
}

/** Merges workers of several nodes. A worker inside a node belongs to that node, whatever its name. */
function mergeWorkers<
  T extends Pick<ShownWorker, "id" | "capacity" | "held"> & {
    readonly kind?: string;
    readonly local?: boolean;
    readonly lastSeenAt?: number | null;
    readonly draining?: boolean;
  },
>(lists: readonly (readonly T[])[]): readonly T[] {
  const named = lists.flatMap((list, node) =>
    list.map((worker) => {
      const isLocal = worker.local === true || worker.kind === "local";
      return { key: isLocal ? `${node} ${worker.id}` : worker.id, worker };
    }),
  );
  const merged = mergeBy(
    named,
    ({ key }) => key,
    ({ key, worker: a }, { worker: b }) => ({
      key,
      worker: {
        ...a,
        capacity: Math.max(a.capacity, b.capacity),
        held: a.held + b.held,
        ...(a.lastSeenAt === undefined ? {} : { lastSeenAt: latest(a.lastSeenAt, b.lastSeenAt ?? null) }),
        ...(a.draining === undefined ? {} : { draining: a.draining || b.draining === true }),
      },
    }),
  );
  return merged.map(({ worker }) => worker);
}

function latest(a: number | null, b: number | null): number | null {
  return a === null || b === null ? (a ?? b) : Math.max(a, b);
}

function mergeBy<T>(items: readonly T[], key: (item: T) => string, merge: (a: T, b: T) => T): readonly T[] {
  const merged = new Map<string, T>();
  for (const item of items) {
    const before = merged.get(key(item));
    merged.set(key(item), before === undefined ? item : merge(before, item));
  }
  return [...merged.values()];
}
