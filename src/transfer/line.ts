/**
 * The lines of an export, each of which is one JSON object. First comes a header, then all data that belongs to no execution. Then each
 * execution follows, the oldest first: its head, its journal in pages, and perhaps a snapshot and logs. Then come rows that are ordered
 * over all executions (dead letters, timers, mail), and an end with the counts. Each line is small enough for memory.
 */
import { z } from "zod";
import type { Entry } from "../kernel/journal/journal-entry.ts";
import { RondoError, reject } from "../std/rejection.ts";
import type { DeadLetter, Head, LogLine, LogRow, MailboxMessage, StoredTimer, Want } from "../store/store.ts";

/** The version of the export format. An import reads only this version. */
export const FORMAT = 1;

const count = z.int().min(0);
const atLeastOne = z.int().min(1);
const name = z.string().min(1);

const header = z.strictObject({
  kind: z.literal("header"),
  format: z.literal(FORMAT),
  /** The version of Rondo that wrote the export. */
  rondo: z.string(),
  at: z.int(),
  /** Whether attempts of remote workers may still run after the export. */
  remote: z.boolean(),
});

const end = z.strictObject({
  kind: z.literal("end"),
  /** The number of lines before this one, and the SHA-256 of their bytes including line ends. */
  lines: count,
  sha256: z.string(),
});

const execution = z.strictObject({
  kind: z.literal("execution"),
  head: z.strictObject({
    id: name,
    workflow: name,
    hash: name,
    project: name,
    status: name,
    phase: z.string().nullable(),
    want: z.enum(["work", "time", "nothing"] satisfies readonly Want[]),
    priority: z.int(),
    createdAt: z.int(),
    finishedAt: z.int().nullable(),
    tags: z.record(z.string(), z.string()),
    error: z.string().nullable(),
  }),
  opened: z.record(z.string(), count),
});

const journal = z.strictObject({
  kind: z.literal("journal"),
  entries: z
    .array(z.strictObject({ seq: atLeastOne, count: atLeastOne, at: z.int(), body: z.string() }))
    .min(1),
});

/** A snapshot of the execution's state, as of the journal lines before it. */
const snapshot = z.strictObject({ kind: z.literal("snapshot"), foldVersion: z.int(), body: z.string() });

const logs = z.strictObject({
  kind: z.literal("logs"),
  rows: z.array(
    z.strictObject({
      attempt: name,
      phase: z.string(),
      visit: count,
      handler: z.string(),
      task: z.int().min(-1),
      number: count,
      worker: z.string(),
      lines: z.array(
        z.strictObject({
          n: atLeastOne,
          at: z.int(),
          level: z.string(),
          text: z.string(),
          run: z.string().exactOptional(),
          fields: z.string().exactOptional(),
        }),
      ),
    }),
  ),
});

const LINE = z.discriminatedUnion("kind", [
  header,
  z.strictObject({ kind: z.literal("definition"), name, hash: name, body: z.string() }),
  z.strictObject({ kind: z.literal("document"), of: name, id: name, body: z.string() }),
  execution,
  journal,
  snapshot,
  logs,
  z.strictObject({
    kind: z.literal("dead-letters"),
    rows: z.array(z.strictObject({ execution: name, seq: atLeastOne, tasks: z.array(count).min(1) })),
  }),
  z.strictObject({
    kind: z.literal("timers"),
    rows: z.array(z.strictObject({ execution: name, timer: name, due: z.int() })),
  }),
  z.strictObject({
    kind: z.literal("letters"),
    rows: z.array(z.strictObject({ id: name, to: name, body: z.string() })),
  }),
  end,
]);

export type Line = z.infer<typeof LINE>;
export type LineOf<Kind extends Line["kind"]> = Extract<Line, { kind: Kind }>;

type LogLines = LineOf<"logs">["rows"][number];
/** A type: `true` if a line has all fields of a stored row, otherwise the names of the missing fields. */
type Covers<Row, Fields, Left extends keyof Row = never> = [Exclude<keyof Row, keyof Fields | Left>] extends [
  never,
]
  ? true
  : Exclude<keyof Row, keyof Fields | Left>;

/**
 * Checks at compile time that the lines have all fields of stored rows. An import refuses unknown fields, so a field without a schema
 * would make an export unreadable. Exempt are fields that the importing store assigns, and damages, which are not exported.
 */
const _isComplete: readonly [
  Covers<Head, LineOf<"execution">["head"], "partition">,
  Covers<Entry, LineOf<"journal">["entries"][number], "damage">,
  Covers<LogRow, LogLines, "mayRepeat">,
  Covers<LogLine, LogLines["lines"][number]>,
  Covers<DeadLetter, LineOf<"dead-letters">["rows"][number]>,
  Covers<StoredTimer, LineOf<"timers">["rows"][number]>,
  Covers<MailboxMessage, LineOf<"letters">["rows"][number]>,
] = [true, true, true, true, true, true, true];

/** Parses a line. Throws a `RondoError` with the number of the line. */
export function parseLine(text: string, number: number): Line {
  const parsed = LINE.safeParse(parseJson(text, number));
  if (parsed.success) return parsed.data;
  const [issue] = parsed.error.issues;
  throw wrongLine(number, `${issue?.path.join(".") ?? ""}: ${issue?.message ?? ""}`, parsed.error);
}

/** Makes the error that refuses a file because of one of its lines. */
export function wrongLine(number: number, why: string, cause?: unknown): RondoError {
  return new RondoError(
    reject("invalid_input", `line ${number} is not a line of an export that this version can read: ${why}`),
    { cause },
  );
}

function parseJson(text: string, number: number): unknown {
  try {
    return JSON.parse(text);
  } catch (thrown) {
    throw wrongLine(number, "the line is not JSON", thrown);
  }
}
