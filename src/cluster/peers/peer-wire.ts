/** The wire format between nodes over HTTP. Schemas check every request before it reaches the engine. */
import { z } from "zod";
import type { Ending, Request } from "../../engine/io.ts";
import type { Parent, Succession } from "../../kernel/event.ts";
import type { ChosenTasks, Outcome, TaskWait } from "../../kernel/message.ts";
import type { GateEntry } from "../../kernel/relay/relay.ts";
import type { Beat, Report, ReportedAttempt } from "../../protocol/work.ts";
import { type Rejection, reject } from "../../std/rejection.ts";

/** All requests between nodes are POSTs below this path. */
export const PEER_PATH = "/peer/v1/";

export const HEADER = {
  from: "rondo-from",
  digest: "rondo-digest",
  /** How many times a request was passed on, including this time. The number is always 1, because no node passes a request on again. */
  hops: "rondo-hops",
} as const;

export const SCHEME = "Rondo-Peer";

/** The largest body of requests and answers: the most that a worker may send at once, plus the envelope. */
export const BODY_BYTES_MAX = 32 * 1_048_576;

/** The most messages of a request. */
export const SENDS_MAX = 500;

/** The longest time without a line in the stream of a watch. */
export const ALIVE_MS = 5_000;

/** A line in the stream of a watch. An empty object only shows that the connection is alive. */
export interface WatchLine {
  readonly seq?: number;
  readonly end?: Ending | null;
  readonly logged?: true;
}

export interface SendBody {
  readonly execution: string;
  readonly message: Request;
  readonly fresh: boolean;
}

export interface InspectBody {
  readonly execution: string;
  /** If set, the answer also has the state of this attempt. Nodes of version 0.2 refuse the field. */
  readonly attempt?: ReportedAttempt;
}

export interface ReportBody {
  readonly worker: string;
  readonly reports: readonly Report[];
}

export interface BeatBody {
  readonly worker: string;
  readonly beats: readonly Beat[];
}

const v = z.literal(1);
const text = z.string();
const id = z.string().min(1).max(1_000);
const whole = z.number().int();
const place = { phase: text, visit: whole, handler: text };
const reportPlace = { ...place, execution: id, round: whole, epoch: whole };
const attempt = { task: whole, attempt: whole, claim: whole };
const reportedAttempt = { ...reportPlace, ...attempt };

const afters = z.array(z.array(text)).nullable().optional();
const items = {
  tasks: z.array(text),
  keys: z.array(text).nullable(),
  identities: z.array(text).nullable(),
  afters,
};

const wait = z.strictObject({
  name: text,
  untilMs: z.number().optional(),
  forMs: z.number().optional(),
  signal: text.optional(),
  timeoutMs: z.number().optional(),
  anyOf: z.array(text).optional(),
  match: text.optional(),
  retry: z.literal(true).optional(),
  child: z.literal(true).optional(),
});

const outcome = z.strictObject({
  status: z.enum(["done", "failed", "crashed", "killed", "cancelled", "exception", "suspended"]),
  payload: text,
  fatal: z.boolean().optional(),
  retryAfterMs: z.number().optional(),
  total: whole.optional(),
  wait: wait.optional(),
  waits: z.array(wait).optional(),
  adds: z.strictObject(items).optional(),
  continueAs: text.optional(),
});

const parent = z.strictObject({
  ...place,
  execution: id,
  task: whole,
  name: text.optional(),
  depth: whole,
  since: whole.optional(),
});

const signalFields = { kind: z.literal("signal"), id, signal: text, data: text };
const signal = z.strictObject(signalFields);

const succession = z.strictObject({
  first: id,
  number: whole,
  after: id.optional(),
  seen: z.array(id).optional(),
});

const startFields = {
  kind: z.literal("start"),
  execution: id,
  workflow: text,
  hash: text,
  project: text,
  input: text,
  tags: z.record(text, text),
  parent: parent.optional(),
  again: z.literal(true).optional(),
  startAt: whole.optional(),
  deadline: whole.optional(),
  trace: text.optional(),
  signal: signal.optional(),
  succession: succession.optional(),
};

const chosen = z.strictObject({
  phase: text,
  visit: whole.optional(),
  handler: text,
  numbers: z.array(whole).optional(),
  dryRun: z.boolean().optional(),
});

const control = z.strictObject({
  kind: z.enum(["pause", "resume", "cancel", "retry"]),
  id,
  by: text,
  reason: text.nullable(),
  fromParent: z.boolean().optional(),
  force: z.boolean().optional(),
  tasks: chosen.optional(),
});

/** An event on its way to a gate, with the fields of `GateEntry`. */
const gateEntry = z.strictObject({
  event: id,
  data: text,
  policy: z.strictObject({
    workflow: text,
    hash: text,
    project: text,
    trigger: text,
    debounce: z.strictObject({ quiet: whole, max: whole.optional() }).optional(),
    throttle: z.strictObject({ limit: whole, per: whole }).optional(),
    batch: z.strictObject({ max: whole, wait: whole }).optional(),
    singleton: z.enum(["skip", "cancel", "signal"]).optional(),
    signal: text.optional(),
    tracks: z.literal(true).optional(),
  }),
  cancels: z.literal(true).optional(),
  returnedBy: id.optional(),
  batch: z.array(z.strictObject({ event: id, data: text })).optional(),
});

/** The messages that pass an event on. The node that owns the event sends them in the commit that creates the event. */
const relays = z.strictObject({
  messages: z.array(
    z.strictObject({
      to: id,
      message: z.discriminatedUnion("kind", [
        z.strictObject({ ...startFields, gate: gateEntry.optional(), notifies: id.optional() }),
        z.strictObject({
          ...signalFields,
          project: text.optional(),
          from: z.strictObject({ gate: id, entry: gateEntry }).optional(),
        }),
        control,
      ]),
    }),
  ),
  output: text,
});

const message = z.discriminatedUnion("kind", [
  z.strictObject({ ...startFields, relays: relays.optional() }),
  control,
  z.strictObject({
    kind: z.literal("move"),
    id,
    by: text,
    reason: text.nullable(),
    definition: text,
    dryRun: z.boolean().optional(),
  }),
  signal,
  z.strictObject({
    kind: z.literal("postop.retry"),
    id,
    by: text,
    op: z.strictObject({
      ...place,
      task: whole,
      step: whole,
      op: z.enum(["persistence", "broadcast"]),
      index: whole,
      receipt: whole,
    }),
  }),
]);

const run = { name: text, index: whole.nullable() };
const stats = z.strictObject({ durationMs: z.number(), memoryBytes: z.number() });

const report = z.discriminatedUnion("kind", [
  z.strictObject({ kind: z.literal("accepted"), ...reportPlace, attempts: z.array(z.strictObject(attempt)) }),
  z.strictObject({
    kind: z.literal("started"),
    ...reportPlace,
    attempts: z.array(z.strictObject({ ...attempt, ms: z.number().optional() })),
  }),
  z.strictObject({
    kind: z.literal("receipts"),
    ...reportPlace,
    receipts: z.array(z.strictObject({ ...attempt, ms: z.number(), outcome })),
  }),
  z.strictObject({
    kind: z.literal("page"),
    ...reportPlace,
    attempt: whole,
    claim: whole,
    from: whole,
    ...items,
  }),
  z.strictObject({
    kind: z.literal("enumeration"),
    ...reportPlace,
    attempt: whole,
    claim: whole,
    ms: z.number(),
    outcome,
  }),
  z.strictObject({
    kind: z.literal("step"),
    ...reportedAttempt,
    name: text,
    result: text,
    map: text.optional(),
    answers: text.optional(),
  }),
  z.strictObject({
    kind: z.literal("step.retrying"),
    ...reportedAttempt,
    name: text,
    tries: whole,
    error: text,
    forMs: z.number(),
  }),
  z.strictObject({
    kind: z.literal("step.failed"),
    ...reportedAttempt,
    name: text,
    tries: whole,
    error: text,
  }),
  z.strictObject({
    kind: z.literal("child"),
    ...reportedAttempt,
    name: text,
    workflow: text,
    input: text,
    detached: z.literal(true).optional(),
    mapped: z.literal(true).optional(),
  }),
  z.strictObject({
    kind: z.literal("noted"),
    ...reportedAttempt,
    times: z.record(text, whole).optional(),
    failures: z.array(text).optional(),
  }),
  z.strictObject({
    kind: z.literal("published"),
    ...reportedAttempt,
    values: z.record(text, z.json()),
  }),
  z.strictObject({
    kind: z.literal("run"),
    ...reportedAttempt,
    ...run,
    state: text,
    oversized: z.boolean(),
    stats,
  }),
  z.strictObject({ kind: z.literal("run.started"), ...reportedAttempt, ...run }),
  z.strictObject({
    kind: z.literal("run.crashed"),
    ...reportedAttempt,
    ...run,
    message: text,
    stats: stats.nullable(),
  }),
  z.strictObject({
    kind: z.literal("logs"),
    ...reportedAttempt,
    lines: z.array(
      z.strictObject({
        n: whole,
        at: z.number(),
        level: text,
        text,
        run: text.optional(),
        fields: text.optional(),
      }),
    ),
  }),
]);

const beat = z.strictObject({ ...reportPlace, attempts: z.array(z.strictObject(attempt)) });

const send = { execution: id, message, fresh: z.boolean() };

/** A type: the names of the fields of `T`. In a union of messages, each name is combined with the kind of the message. */
type Fields<T> = T extends { readonly kind: infer Kind extends string }
  ? `${Kind}.${keyof T & string}`
  : T extends unknown
    ? keyof T & string
    : never;

/** A type: `true` if a schema has all fields of the type that is sent, otherwise the names of the missing fields. */
type Covers<Sent, Schema extends z.ZodType, Left extends string = never> = [
  Exclude<Fields<Sent>, Fields<z.infer<Schema>> | Left>,
] extends [never]
  ? true
  : Exclude<Fields<Sent>, Fields<z.infer<Schema>> | Left>;

/**
 * Checks at compile time that the schemas have all fields. The receiver refuses unknown fields, so a field without a schema would work in
 * one process and fail in a cluster. Fields of messages that are only stored as mail are exempt.
 */
const _isComplete: readonly [
  Covers<
    Request,
    typeof message,
    "start.gate" | "start.notifies" | "start.kept" | "start.cancel" | "signal.project" | "signal.from"
  >,
  Covers<Report, typeof report>,
  Covers<Outcome, typeof outcome>,
  Covers<TaskWait, typeof wait>,
  Covers<Succession, typeof succession>,
  Covers<Parent, typeof parent>,
  Covers<ChosenTasks, typeof chosen>,
  Covers<GateEntry, typeof gateEntry>,
] = [true, true, true, true, true, true, true, true];

/** Schemas of the bodies of all requests except those to hooks. */
export const BODIES = {
  send: z.strictObject({ v, ...send }),
  sends: z.strictObject({ v, sends: z.array(z.strictObject(send)).min(1).max(SENDS_MAX) }),
  inspect: z.strictObject({ v, execution: id, attempt: z.strictObject(reportedAttempt).optional() }),
  dropped: z.strictObject({ v, execution: id }),
  watch: z.strictObject({ v, execution: id }),
  report: z.strictObject({ v, worker: id, reports: z.array(report) }),
  beat: z.strictObject({ v, worker: id, beats: z.array(beat) }),
  definition: z.strictObject({ v, workflow: text }),
} satisfies Record<string, z.ZodType>;

export function checkBody<T>(schema: z.ZodType, body: unknown): T | Rejection {
  const parsed = schema.safeParse(body);
  if (parsed.success) return parsed.data as T;
  const [issue] = parsed.error.issues;
  const isUnknown = issue?.code === "unrecognized_keys";
  const path = [...(issue?.path ?? []), ...(isUnknown ? issue.keys.slice(0, 1) : [])].join(".");
  return reject(isUnknown ? "unknown_field" : "invalid_input", `${path}: ${issue?.message ?? "is wrong"}`, {
    path,
    hint: "nodes of different versions may not understand each other",
  });
}
