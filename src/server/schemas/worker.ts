/**
 * Schemas of the worker protocol. The schemas of events serve the OpenAPI document only: read-event.ts reads events by hand.
 */
import { z } from "@hono/zod-openapi";
import { EVENT_NUMBER_MAX, RECEIPT_STATUSES, WAIT_MS_MAX } from "../../protocol/worker-wire.ts";
import { CAPACITY_MAX } from "../worker-protocol/registration.ts";
import type { Shape } from "./shape.ts";

const count = z.number().int().nonnegative();
const json = z.unknown().describe("any JSON value");
const tokens = z.record(z.string(), z.string()).describe("the token of each attempt, by its id");
const verdict = z.enum(["accepted", "duplicate", "stale", "late", "gone", "not_owner", "gap"]);
const nodes = z
  .array(z.string())
  .optional()
  .describe("the URLs of the cluster's nodes; a worker registers at each, under the same id");

/** Describes a value by a schema for the OpenAPI document. Hand-written code checks the value itself. */
function described(schema: z.ZodType, name: string): z.ZodType {
  const { $schema: _, ...description } = z.toJSONSchema(schema, { unrepresentable: "any" });
  return z.unknown().openapi(name, description as object);
}

export const registrationSchema = described(
  z.strictObject({
    name: z.string(),
    worker: z
      .string()
      .optional()
      .meta({ description: "the id of an earlier registration, after a reconnect" }),
    handlers: z.array(
      z.strictObject({
        use: z.string(),
        version: z.string().optional(),
        enumerates: z.boolean().optional().meta({
          description:
            "whether the code enumerates tasks. true: it never gets the input as the single task of a handler. false: it never gets an enumeration. Left out: the definition decides, and it gets enumerations only while no connected worker has true here",
        }),
      }),
    ),
    topics: z.array(z.string()).optional(),
    capacity: z.number().int().min(1).max(CAPACITY_MAX),
    url: z
      .string()
      .optional()
      .meta({ description: "the worker's own status API, at the address that it connects from" }),
    version: z.string().optional(),
  }),
  "WorkerRegistration",
);

export const registeredSchema = z
  .object({
    worker: z.string(),
    heartbeatMs: count,
    leaseMs: count,
    nodes,
    logFields: z.boolean().optional().describe("whether log lines may have `fields`"),
  })
  .openapi("RegisteredWorker");

export const claimSchema = z
  .strictObject({ max: count.max(100_000), waitMs: count.max(WAIT_MS_MAX) })
  .openapi("Claim");

const phaseCounts = z.looseObject({
  phase: z.string(),
  visit: count,
  handlers: z.array(z.looseObject({ name: z.string(), total: count, done: count, failed: count })),
});

const workItem = z
  .looseObject({
    attempt: z.string(),
    token: z.string(),
    leaseUntil: count,
    do: z.enum(["enumerate", "process", "next", "returns", "command", "script"]),
    execution: z.string(),
    workflow: z.string(),
    project: z.string(),
    phase: z.string(),
    visit: count,
    handler: z.string(),
    use: z.string(),
    version: z.string().nullable(),
    number: z.number().int().describe("the number of the task; -1: the enumeration"),
    task: json,
    idempotencyKey: z.string(),
    n: count.describe("the number of the attempt, from 1"),
    timeoutMs: count.nullable(),
    heartbeatMs: count,
    batch: count,
    resume: z.object({ count, last: json, checksum: z.number() }).optional(),
    steps: z.array(z.looseObject({ name: z.string() })).optional(),
    runs: z.array(z.looseObject({ name: z.string(), expression: z.string() })).optional(),
    finished: count.optional(),
    state: json.optional(),
    phases: z.array(phaseCounts).optional(),
    outcome: z
      .enum(["done", "unknown"])
      .optional()
      .describe("only in a compensation: how the task that is compensated ended; unknown: it may have begun"),
    result: json.optional().describe("only in a compensation: the result of the task, if it is done"),
  })
  .openapi("WorkItem");

const taskBatch = workItem
  .omit({ attempt: true, token: true, number: true, task: true, idempotencyKey: true, n: true })
  .extend({
    round: count,
    epoch: count,
    tasks: z
      .array(z.tuple([count, count, count, z.string(), json]))
      .describe(
        "for each task its number, the attempt's number, the claim's number, the token, and the task. The attempt's id joins by dots: `execution`, `phase`, `visit`, `handler`, `round`, the three numbers, and `epoch`. The `idempotencyKey` joins by slashes: `execution`, `phase`, `visit`, `handler`, and the task's number. In both, bytes of `execution` in UTF-8 other than letters, digits, `_`, `:`, `~` and `-` are written as `%` and two upper-case hexadecimal digits",
      ),
  });

export const claimedSchema = z
  .object({
    work: z.array(workItem),
    batches: z
      .array(taskBatch)
      .optional()
      .describe("only in a brief answer: tasks without a history, by handler; `work` leaves them out"),
    inputs: z.record(z.string(), json).describe("by execution"),
    phases: z
      .record(z.string(), z.array(phaseCounts))
      .describe(
        "the counts of the phases so far, by execution: first an entry with visit 0 and zero totals for each phase, then the visits in order",
      ),
    cancel: z.array(z.string()).describe("attempts to stop; each still ends with its receipt"),
    lost: z.array(z.string()).describe("attempts that have lost their lease"),
    drain: z.boolean().optional().describe("true if the worker must claim no more work, and deregister"),
    nodes,
  })
  .openapi("ClaimedWork");

/** Names of the tasks in a list, one for each task. */
const names = {
  keys: z.array(z.string()).optional(),
  identities: z.array(z.string()).optional().meta({
    description: "names of the tasks; ignored unless the handler's definition has `identity`",
  }),
  afters: z.array(z.array(z.string())).optional().meta({
    description:
      "for each task, the identities of the tasks that it waits for, if the definition has `after`",
  }),
};

const kinds = {
  accepted: {},
  started: {},
  progress: { done: z.number(), total: z.number().optional() },
  log: {
    text: z.string(),
    level: z.string().optional(),
    at: z.number().optional(),
    run: z.string().optional(),
    fields: z.record(z.string(), z.unknown()).optional(),
  },
  page: {
    from: z.number(),
    tasks: z.array(z.unknown()),
    ...names,
  },
  step: { name: z.string(), result: z.unknown() },
  run_started: { run: z.string() },
  run_finished: {
    run: z.string(),
    state: z.unknown(),
    index: z.number().optional(),
    oversized: z.boolean().optional(),
    stats: z.unknown().optional(),
  },
  run_crashed: { run: z.string(), message: z.string(), stats: z.unknown().optional() },
  receipt: {
    status: z.enum(RECEIPT_STATUSES),
    result: z.unknown().optional(),
    total: z.number().optional(),
    wait: z
      .object({
        name: z.string(),
        untilMs: z.number().optional(),
        forMs: z.number().optional(),
        signal: z.string().optional(),
        timeoutMs: z.number().optional(),
      })
      .optional()
      .meta({ description: "only if suspended: the wait for a time (untilMs or forMs) or a signal" }),
    error: z
      .object({
        name: z.string().optional(),
        message: z.string(),
        code: z.string().optional(),
        stack: z.string().optional(),
        cause: z.unknown().optional().meta({ description: "the cause of this error, in the same form" }),
        hint: z.string().optional(),
        fatal: z.boolean().optional(),
        retryAfterMs: z.number().optional(),
      })
      .optional(),
    stats: z.object({ durationMs: z.number(), memoryBytes: z.number().optional() }).optional(),
    adds: z
      .strictObject({ tasks: z.array(z.unknown()), ...names })
      .optional()
      .meta({
        description: "only if done: tasks that the task adds to its handler, whose definition has `adds`",
      }),
    continueAs: z.unknown().optional().meta({
      description: "only if done: the input with which the execution continues as another one",
    }),
  },
};

export const eventsSchema = described(
  z.strictObject({
    tokens: z.record(z.string(), z.string()),
    acknowledged: z.record(z.string(), z.number().int().min(0).max(EVENT_NUMBER_MAX)).optional().meta({
      description:
        "after a restart of the server: the number of the last acknowledged event, for each attempt",
    }),
    events: z.array(
      z.union(
        Object.entries(kinds).map(([kind, fields]) =>
          z.strictObject({
            attempt: z.string(),
            token: z.string().optional().meta({ description: "the attempt's token, instead of `tokens`" }),
            n: z.number().int().min(1).max(EVENT_NUMBER_MAX),
            kind: z.literal(kind),
            ...(fields as z.ZodRawShape),
          }),
        ),
      ),
    ),
  }),
  "WorkerEvents",
);

export const eventsAnswerSchema = z
  .object({
    claimed: claimedSchema
      .optional()
      .describe("the work of a claim in the same request (header `rondo-claim`)"),
    rest: z
      .literal("accepted")
      .optional()
      .describe(
        "only in a brief answer: the verdict on every attempt that the answer does not name; all events of these attempts are stored",
      ),
    stored: z
      .record(z.string(), count)
      .describe("the number of the last handled event of each attempt; send later events again"),
    verdicts: z
      .record(z.string(), verdict)
      .describe(
        "a verdict on each attempt. stale and gone: the attempt is not wanted any more (stale beside an entry in `refused`: the attempt keeps its lease). late: recorded, but did not count. gap: an earlier event is missing, nothing was stored, and the attempt is still wanted. not_owner: another node owns the execution",
      ),
    refused: z
      .record(
        z.string(),
        z.object({
          n: count.nullable(),
          code: z.string(),
          message: z.string(),
          hint: z.string().optional(),
          path: z.string().optional(),
        }),
      )
      .optional()
      .describe(
        "the last refused event of each attempt: it is not journaled, and the attempt keeps its lease",
      ),
  })
  .openapi("WorkerEventsAnswer");

export const heartbeatSchema = z.strictObject({ tokens }).openapi("Heartbeat");

export const heartbeatAnswerSchema = z
  .record(z.string(), z.enum(["continue", "cancel", "lost", "not_owner"]))
  .openapi("HeartbeatAnswer");

/** The answer to a request that drains a worker. */
export const drainedSchema = z.object({ worker: z.string(), draining: z.boolean() });

const workerSchema = z.object({
  id: z.string(),
  name: z.string(),
  kind: z.enum(["local", "remote"]),
  project: z
    .string()
    .nullable()
    .describe("the only project whose tasks the worker gets; null for all projects"),
  capacity: count,
  held: count,
  handlers: z.array(z.object({ use: z.string(), version: z.string().optional() })),
  topics: z.array(z.string()),
  version: z.string().nullable(),
  url: z.string().nullable(),
  lastSeenAt: z.number().nullable(),
  memoryBytes: z.number().nullable().describe("the memory of the worker's process, as it reported it"),
  draining: z.boolean(),
});
export type Worker = Shape<typeof workerSchema>;

export const workersSchema = z
  .object({ data: z.array(workerSchema), next: z.string().nullable() })
  .openapi("WorkerPage");

export const scalingSchema = z
  .object({
    tasks: count.describe("ready and held tasks together: the metric that KEDA divides by its target"),
    ready: count,
    held: count,
    workers: count,
    capacity: count,
    utilisation: z.number(),
    desired: count.describe("the number of workers that could run all tasks at the same time"),
  })
  .openapi("Scaling");
export type Scaling = Shape<typeof scalingSchema>;

export const itemsSchema = z.object({ data: z.array(json).nullable() }).openapi("MapItems");

export const resultsSchema = z
  .object({
    data: z.array(
      z.object({
        task: count,
        status: z.string(),
        result: json.optional(),
        error: json.optional(),
        data: json.optional(),
      }),
    ),
    next: z.string().nullable(),
  })
  .openapi("AttemptResults");

export const runSchema = z.object({ state: json, expression: z.string() }).openapi("RunArtifacts");

export const scriptSchema = z
  .object({
    project: z.string(),
    finished: z.number().int().describe("the number of finished runs of the script"),
    runs: z.array(z.object({ name: z.string(), expression: z.string(), timeoutMs: z.number().nullable() })),
    state: json.describe("the state before the next run"),
  })
  .openapi("AttemptRuns");

export const runStatusSchema = z
  .object({
    attempt: z.string(),
    worker: z.string(),
    run: z.string(),
    index: z.number().int().describe("the place of the run in the script, from 0"),
    status: z.enum(["pending", "running", "finished", "crashed"]),
  })
  .openapi("RunStatus");

export const logsSchema = z
  .strictObject({
    lines: z
      .array(
        z.strictObject({
          text: z.string(),
          level: z.string().optional(),
          at: z.number().optional(),
          run: z.string().optional(),
          fields: z.record(z.string(), z.unknown()).optional(),
        }),
      )
      .min(1)
      .max(1_000),
  })
  .openapi("AttemptLogs");

export const statusSchema = z
  .strictObject({
    status: z.enum(["accepted", "started", "running", "done", "crashed"]),
    run: z.string().optional().describe("the name of a run, if the status is of a run of a script"),
    result: json.optional(),
    state: json.optional(),
    total: count.optional(),
    message: z.string().optional(),
    stats: z.strictObject({ durationMs: count, memoryBytes: count.optional() }).optional(),
  })
  .openapi("AttemptStatus");

export const toldSchema = z
  .object({ attempt: z.string(), verdict })
  .openapi("AttemptTold", { description: "the verdict on the attempt, as in the answer to events" });

export const statusAnswerSchema = z
  .object({
    attempt: z.string(),
    verdict: verdict.optional(),
    word: z
      .enum(["continue", "cancel", "lost", "not_owner"])
      .optional()
      .describe("the answer to the status `running`, as to a heartbeat; it replaces the verdict"),
  })
  .openapi("AttemptStatusAnswer");
