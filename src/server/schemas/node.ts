/** The state of nodes in JSON: limits, timers, open attempts, the overview and the ring. */
import { z } from "@hono/zod-openapi";
import { time } from "./paging.ts";
import type { Shape } from "./shape.ts";

export const limitSchema = z
  .object({
    name: z.string().describe("the project and handler, or the key that the limit is for"),
    max: z.number(),
    held: z.number().int().describe("running attempts; for a rate: the starts that count towards it now"),
    waiting: z.number().int().describe("executions with tasks that wait for this limit"),
    perMs: z.number().int().optional().describe("for a rate: how long a start counts towards it"),
  })
  .openapi("Limit", { example: { name: "default/thumbnails.resize", max: 200, held: 200, waiting: 3 } });
export type Limit = Shape<typeof limitSchema>;

export const timerSchema = z
  .object({ execution: z.string(), timer: z.string(), due: time })
  .openapi("Timer", {
    example: { execution: "nightly-2026-11-15", timer: "cool-off.1.cool-off", due: 1_794_700_800_000 },
  });
export type Timer = Shape<typeof timerSchema>;

export const attemptSchema = z
  .object({
    attempt: z.string(),
    execution: z.string(),
    project: z.string(),
    phase: z.string(),
    visit: z.number().int(),
    handler: z.string(),
    task: z.number().int().describe("the task's number; -1: the enumeration"),
    topic: z.string().optional().describe("of a command"),
    receiptTopic: z.string().optional().describe("for a command: the topic of its receipt"),
    n: z.number().int(),
    worker: z.string(),
    status: z.enum(["claimed", "running"]),
    startedAt: time.nullable(),
    leaseUntil: time.nullable(),
  })
  .openapi("OpenAttempt");
export type OpenAttempt = Shape<typeof attemptSchema>;

export const count = z.number().int().nonnegative();

export const counts = z
  .record(z.string(), count)
  .describe(
    "the number of executions in each status; every write updates these counts, so reading them is cheap",
  );
export type StatusCounts = Shape<typeof counts>;

export const waitingCount = count.describe(
  "how many running executions sleep or wait for a signal; every write updates this count",
);

export const lightSchema = z
  .object({ state: z.enum(["ok", "warn", "bad", "off"]), text: z.string() })
  .openapi("Light");
export type Light = Shape<typeof lightSchema>;

/** The names of the figures that are reported for each second: executions, tasks, and how long tasks waited and ran. */
export const PULSE_FIELDS = [
  "started",
  "done",
  "failed",
  "cancelled",
  "tasksDone",
  "tasksFailed",
  "waitMs",
  "waits",
  "runMs",
  "runs",
] as const;

const pulseSchema = z
  .object({
    until: count.describe("the end of the last second, in seconds since 1970"),
    ...fieldsOf(PULSE_FIELDS, z.array(z.number())),
  })
  .openapi("Pulse", { description: "figures of the last seconds, one item per second, the oldest first" });
export type PulseSeconds = Shape<typeof pulseSchema>;

/** Makes the schema of an object with these fields, all of the same schema. */
function fieldsOf<K extends string, S extends z.ZodType>(names: readonly K[], schema: S): Record<K, S> {
  return Object.fromEntries(names.map((name) => [name, schema])) as Record<K, S>;
}

export const overviewSchema = z
  .object({
    at: count,
    version: z.string(),
    counts,
    waiting: waitingCount,
    pulse: pulseSchema
      .nullable()
      .describe("the recent activity; null for a caller that is bound to a project"),
    held: count.describe("attempts that workers hold"),
    capacity: count,
    workers: count,
    ready: z.array(
      z.object({
        use: z.string(),
        tasks: count,
        since: time
          .optional()
          .describe("since when no worker has taken work from one of the handler's queues, if it is known"),
        workflows: z
          .array(z.string())
          .optional()
          .describe("workflows whose executions have these tasks, at most 5"),
      }),
    ),
    oldest: z
      .object({
        id: z.string(),
        workflow: z.string(),
        phase: z.string().nullable(),
        createdAt: count,
        why: z.string(),
      })
      .nullable()
      .describe("the oldest execution that has work"),
    lights: z.object({ store: lightSchema, broker: lightSchema, ring: lightSchema }),
  })
  .openapi("Overview");
export type Overview = Shape<typeof overviewSchema>;

export const attentionSchema = z
  .object({
    kind: z.enum(["node", "damaged", "unserved", "slow", "schedule", "error", "errors"]).openapi({
      description: "`slow`: an execution is open for much longer than usual; `errors`: further new errors",
    }),
    name: z.string().openapi({
      description:
        "the URL of the node, the handler or topic, the id of the execution, of the schedule, or of the group of errors",
    }),
    count: count.openapi({ description: "how many tasks, executions or groups of errors are concerned" }),
    text: z.string(),
    workflow: z.string().optional(),
  })
  .openapi("Attention", {
    example: {
      kind: "unserved",
      name: "thumbnails.resize",
      count: 200,
      text: "No worker serves it. Executions of thumbnails wait for it.",
    },
  });
export type Attention = Shape<typeof attentionSchema>;

export const ms = z.number().nullable();

export const nodeSchema = z.looseObject({
  url: z.string(),
  incarnation: z.string().describe("the id of this membership of the node"),
  partitions: count.describe("the number of partitions that the node owns"),
  hash: z.string().nullable().describe("the last known hash of the node's view of the ring"),
  agrees: z.boolean().describe("whether the node's view of the ring is the same as this node's"),
  suspect: z.boolean().describe("whether the node does not answer"),
  leaseUntil: time.nullable().describe("when the node's membership ends unless it is renewed"),
  clockworkers: z.array(z.string()).describe("the nodes that watch the node's timers"),
});

export const ownershipSchema = z.looseObject({
  status: z.enum(["joining", "member", "leaving", "left"]),
  incarnation: z.string().nullable(),
  owned: z.array(z.object({ partition: count, epoch: count })).describe("the partitions that this node owns"),
  yielding: z.array(count).describe("partitions that this node is handing over to other nodes"),
  places: z.array(z.string()).describe("the node that each partition is assigned to"),
  owners: z.array(z.string().nullable()).describe("the node that owns each partition now"),
});

export const ringSchema = z
  .looseObject({
    url: z.string().describe("this node"),
    hash: z.string().describe("the hash of the view of the ring on this node"),
    nodes: z.array(nodeSchema).describe("the nodes in the order of the ring"),
    token: z
      .looseObject({
        epoch: count,
        number: count,
        maker: z.string(),
        members: z.array(z.string()),
        at: z.string().describe("the node that has the ring's token, as far as any node knows"),
        seenAt: time,
      })
      .nullable(),
    cycle: z.looseObject({ count, lastMs: ms, averageMs: ms }),
    made: count.describe("how many ring tokens this node has made to replace lost ones"),
    dropped: count.describe("how many outdated ring tokens this node has dropped"),
    queued: z.looseObject({ hints: count, timers: count }),
    carried: z.looseObject({ hints: count, timers: count }),
    watch: z.looseObject({
      executors: z.array(z.string()).describe("the nodes whose timers this node watches"),
      partitions: count,
      timers: count,
      lateness: z.looseObject({ count, lastMs: z.number(), maxMs: z.number() }),
    }),
    deaths: z
      .array(z.looseObject({ url: z.string().nullable(), incarnation: z.string(), at: time }))
      .describe("nodes that did not answer"),
    ownership: ownershipSchema,
  })
  .openapi("Ring");
export type Ring = Shape<typeof ringSchema>;

/** A queue that an operator paused. */
export const pausedQueueSchema = z
  .object({ use: z.string(), by: z.string(), at: time, reason: z.string().nullable() })
  .openapi("PausedQueue");
export type PausedQueue = Shape<typeof pausedQueueSchema>;
