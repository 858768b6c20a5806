/** The journal and the logs of an execution, as pages or as streams. */
import { z } from "@hono/zod-openapi";
import { parsePosition, readLog, showPosition } from "../../engine/views/log-reader.ts";
import type { Recorded } from "../../kernel/event.ts";
import { decodeEntry } from "../../kernel/journal/journal-entry.ts";
import { type Detail, publicEvent } from "../../kernel/journal/public-event.ts";
import { isRejection, type Rejection, reject } from "../../std/rejection.ts";
import { type Answer, type Ask, bytes, json, STREAMED } from "../route.ts";
import { eventSchema, lineSchema } from "../schemas/execution.ts";
import {
  cursor,
  executionParams,
  flag,
  integer,
  limit,
  name,
  PAGE_CHARS,
  pageOf,
  phaseName,
} from "../schemas/paging.ts";
import { eventSource } from "../streams/event-source.ts";
import { type LogItems, logLines, logSource } from "../streams/log-source.ts";
import { seqSince } from "../views/seq-since.ts";
import { inspectFor, routesOf, type Services } from "./services.ts";

const route = routesOf("executions");

export const STREAM = "text/event-stream";
const ROWS = 32;
/** The most journal rows that are read for one page if a filter by kind is given. */
const ROWS_READ_MAX = 2_000;

export const follow = flag("true: the stream continues after the end of the execution; only for streams");
export const STREAM_HEADERS = {
  Accept: "`text/event-stream` for a stream",
  "Last-Event-ID": "the id of the last event that the client has: the stream continues after it",
};

const eventsQuery = z.strictObject({
  from: integer(1, Number.MAX_SAFE_INTEGER, "the first sequence number").optional(),
  since: integer(
    0,
    Number.MAX_SAFE_INTEGER,
    "only events recorded at or after this time, in milliseconds since 1970; not for streams",
  ).optional(),
  cursor,
  limit: limit(100),
  detail: z
    .enum(["summary", "full"])
    .default("summary")
    .describe("`summary` shows lists of tasks as counts and ranges"),
  kinds: z
    .string()
    .regex(/^[a-z.]{1,40}(?:,[a-z.]{1,40}){0,9}$/, "must be beginnings of event kinds, separated by commas")
    .optional()
    .describe(
      "only events whose kind begins with one of these, written without `workflow.` (`postop.,task.run`); not for streams",
    ),
  follow,
});

const logsQuery = z.strictObject({
  phase: phaseName.optional(),
  visit: integer(1, 1_000_000, "the visit").optional(),
  handler: name.optional(),
  task: integer(0, 10_000_000, "the task's number").optional(),
  attempt: integer(1, 65_535, "the attempt's number").optional(),
  level: z.string().max(20).optional(),
  run: z.string().max(100).optional().describe("only lines of the run of a script with this name"),
  cursor,
  limit: limit(200),
  follow,
});

const eventsRoute = route({
  id: "readEvents",
  request: "GET /v1/executions/{id}/events",
  summary: "Read the events of an execution, as a page or as a stream",
  description:
    "If several executions followed each other under the id, the events are those of the newest one. A stream ends at `workflow.finished` unless `follow=true`; comments keep the connection open; a stream that the client does not read is closed. A stream about a damaged execution ends with an event of the kind `damaged` that has `code`, `message`, `hint` and `damage`.",
  access: "viewer",
  scope: "history",
  params: executionParams,
  query: eventsQuery,
  headers: STREAM_HEADERS,
  answers: {
    200: { description: "events in order", schema: pageOf(eventSchema, "events"), types: [STREAM] },
  },
  async handle(ask, services) {
    const found = await inspectFor(services, ask.caller, ask.params.id);
    if (isRejection(found)) return found;
    const from = firstSeq(ask);
    if (typeof from !== "number") return from;
    const { detail, limit: max, kinds, since } = ask.query;
    const { id } = found.view;
    if (!wantsStream(ask)) {
      const first =
        since === undefined
          ? 1
          : await seqSince(services.store, id, { since, revision: found.view.revision });
      return eventPage(services, id, {
        from: Math.max(from, first),
        max,
        detail,
        kinds: kinds?.split(",") ?? null,
      });
    }
    return openFeed(ask, services, {
      key: `events ${detail} ${id}`,
      source: () => eventSource(services, id, detail),
      from: String(from),
      follow: ask.query.follow,
    });
  },
});

const logsRoute = route({
  id: "readLogs",
  request: "GET /v1/executions/{id}/logs",
  summary: "Read the log lines of an execution, as a page or as a stream",
  description: "Lines are in the order of storing. A stream ends with the execution unless `follow=true`.",
  access: "viewer",
  scope: "history",
  params: executionParams,
  query: logsQuery,
  headers: STREAM_HEADERS,
  answers: {
    200: { description: "lines in order", schema: pageOf(lineSchema, "lines"), types: [STREAM] },
  },
  async handle(ask, services) {
    const found = await inspectFor(services, ask.caller, ask.params.id);
    if (isRejection(found)) return found;
    const { cursor: page, limit: max, follow: goesOn, ...filter } = ask.query;
    return answerLog(ask, services, {
      ...{ execution: found.view.id, page, max, follow: goesOn },
      key: `logs ${JSON.stringify(filter)}`,
      items: logLines(filter),
    });
  },
});

interface LogQuestion<Item> {
  readonly execution: string;
  /** The cursor of the wanted page. */
  readonly page: string | undefined;
  readonly max: number;
  readonly follow: boolean;
  /** The name of the feed. Requests for the same items of one execution share a feed. */
  readonly key: string;
  readonly items: LogItems<Item>;
}

/** Answers with items of the log of an execution, as a page or as a feed. */
export async function answerLog<Item>(
  ask: Ask,
  services: Services,
  { execution, page, max, follow, key, items }: LogQuestion<Item>,
) {
  const from = firstLine(ask, page);
  if (isRejection(from)) return from;
  if (wantsStream(ask))
    return openFeed(ask, services, {
      key: `${key} ${execution}`,
      source: () => logSource(services, execution, items),
      from: showPosition(from),
      follow,
    });
  const read = await readLog(services.store, execution, { from, max, itemOf: items.itemOf });
  return json({ data: read.items, next: read.isLast ? null : showPosition(read.next) });
}

/** Answers with a stream of server-sent events. A HEAD request gets an empty answer. */
export function openFeed(
  { incoming, outgoing, caller }: Ask,
  { hub }: Services,
  feed: Pick<Parameters<Services["hub"]["open"]>[0], "key" | "source" | "from" | "follow">,
): Answer<never> {
  if (incoming.method === "HEAD") return { kind: "bytes", status: 200, type: STREAM, body: "" };
  return hub.open({ outgoing, caller, ...feed }) ?? STREAMED;
}

export function wantsStream({ header }: Pick<Ask, "header">): boolean {
  return header("accept")?.includes(STREAM) === true;
}

export function lastEventId({ header }: Pick<Ask, "header">): string | null {
  const id = header("last-event-id");
  return id === undefined || id === "" ? null : id;
}

/** The sequence number of the first wanted event: the one after the client's last event, or the one in the query. */
function firstSeq(ask: Ask<unknown, z.output<typeof eventsQuery>>): number | Rejection {
  const last = wantsStream(ask) ? lastEventId(ask) : null;
  const { cursor: page, from } = ask.query;
  const text = last ?? page;
  if (text === undefined) return from ?? 1;
  if (!/^\d{1,15}$/.test(text))
    return reject("invalid_input", `"${text.slice(0, 40)}" is not a sequence number`, {
      path: last === null ? "cursor" : "Last-Event-ID",
    });
  return Math.max(1, last === null ? Number(text) : Number(text) + 1);
}

/** The position of the first wanted line: the one after the client's last one, or the one in the query. */
function firstLine(ask: Pick<Ask, "header">, page: string | undefined) {
  const last = wantsStream(ask) ? lastEventId(ask) : null;
  const text = last ?? page ?? "0.0";
  const position = parsePosition(text);
  if (position === null)
    return reject("invalid_input", `"${text.slice(0, 40)}" is not the id of a log line`, {
      path: last === null ? "cursor" : "Last-Event-ID",
    });
  return last === null ? position : { row: position.row, line: position.line + 1 };
}

async function eventPage(
  { store }: Services,
  execution: string,
  options: {
    readonly from: number;
    readonly max: number;
    readonly detail: Detail;
    readonly kinds: readonly string[] | null;
  },
) {
  const { max, detail, kinds } = options;
  const isWanted = ({ event: { kind } }: Recorded): boolean =>
    kinds === null || kinds.some((begin) => kind.startsWith(begin));
  let next = options.from;
  let count = 0;
  let text = "";
  for (let rows = 0; kinds === null || rows < ROWS_READ_MAX; ) {
    const entries = await store.readJournal({ execution, from: next, rowsMax: ROWS, charsMax: PAGE_CHARS });
    if (entries.length === 0) return page(text, null);
    for (const entry of entries) {
      rows++;
      const mayHold = kinds === null || kinds.some((begin) => entry.body.includes(`"kind":"${begin}`));
      // The page ends before a damaged row; the next page reports the damage.
      if (entry.damage !== undefined && count > 0) return page(text, String(next));
      for (const recorded of mayHold ? decodeEntry(entry) : []) {
        if (recorded.seq < next || !isWanted(recorded)) continue;
        if (count === max || text.length > PAGE_CHARS) return page(text, String(next));
        text += `${count === 0 ? "" : ","}${JSON.stringify(publicEvent(execution, recorded, detail))}`;
        count++;
        next = recorded.seq + 1;
      }
      next = Math.max(next, entry.seq + entry.count);
    }
  }
  return page(text, String(next));
}

function page(items: string, next: string | null): Answer<never> {
  const body = `{"data":[${items}],"next":${JSON.stringify(next)}}`;
  return bytes(body);
}

export const eventRoutes = [eventsRoute, logsRoute];
