/** `rondo events ID`: prints the journal of an execution, and follows it with --follow. */
import type { PublicEvent } from "../../kernel/journal/public-event.ts";
import type { ExecutionHandle } from "../../sdk/handle.ts";
import { EXIT, type ExitCode } from "../exit-code.ts";
import { printJson, printLine, printPainted } from "../output/print.ts";
import { showClock, showTime } from "../output/show-time.ts";
import { type Flags, type Server, type ServerFlags, withServer } from "../server/find-server.ts";
import { interruptible } from "../server/interruptible.ts";
import { readPages } from "../server/read-pages.ts";
import { isColoured, Painter } from "../style.ts";
import { countOf } from "./ps.ts";
import { showReadable } from "./show-readable.ts";

export type EventsFlags = ServerFlags & Flags<"from", "follow" | "full">;

/** Prints the events of an execution. */
export async function events(id: string, options: EventsFlags): Promise<ExitCode> {
  const from = options.from === undefined ? 1 : countOf(options.from, "--from");
  const detail = options.full ? "full" : "summary";
  const painter = new Painter(isColoured(process.stdout));
  const show = (event: PublicEvent) => {
    if (options.json) printJson(event);
    else printPainted(eventLine(event, painter));
  };
  const use = async ({ rondo }: Server): Promise<ExitCode> => {
    if (options.follow) {
      const handle = rondo.execution(id);
      // An error is thrown if the server cannot be reached at first. If the connection is lost later, the stream reconnects.
      await handle.describe();
      return interruptible(handle, () => followRounds(handle, { from, detail }, show));
    }
    const path = `/v1/executions/${encodeURIComponent(id)}/events`;
    await showReadable(rondo.execution(id), async () => {
      for await (const event of readPages<PublicEvent>(rondo.requester, path, { from, detail })) show(event);
    });
    return EXIT.ok;
  };
  return withServer(options, use, { say: printLine });
}

/** Yields events until the execution ends. If a retry begins another round, continues with the events of that round. */
async function followRounds(
  handle: ExecutionHandle<unknown>,
  { from, detail }: { readonly from: number; readonly detail: "summary" | "full" },
  show: (event: PublicEvent) => void,
): Promise<void> {
  for (let next = from, isMore = true; isMore; ) {
    let last = "";
    for await (const event of handle.events({ from: next, detail })) {
      show(event);
      next = event.seq + 1;
      last = event.kind;
    }
    // The stream was closed before `workflow.finished`, so no more events follow.
    if (last !== "workflow.finished") return;
    const { finishedAt, revision } = await handle.describe();
    isMore = finishedAt === null || next <= revision;
  }
}

const HASH_CHARS = 12;
const TIMES = new Set(["due", "startAt", "deadline"]);
const ENVELOPE = new Set(["seq", "at", "kind", "v", "execution", "phase", "visit", "handler"]);

/** Formats an event as one line: number, time, kind, place and other fields. */
export function eventLine(event: PublicEvent, painter: Painter): string {
  const { seq, at, kind, phase, visit, handler } = event;
  const place =
    typeof phase === "string"
      ? ` ${phase}${typeof visit === "number" && visit > 1 ? `#${visit}` : ""}${typeof handler === "string" && handler !== phase ? `/${handler}` : ""}`
      : "";
  const rest = Object.entries(event)
    .filter(([name, value]) => !ENVELOPE.has(name) && !isEmpty(value))
    .map(([name, value]) => `${name}=${fieldText(name, value)}`);
  return painter.line([
    [String(seq).padStart(6), "dim"],
    [` ${showClock(at)} `, "dim"],
    kind.replace(/^workflow\./, ""),
    [place, "cyan"],
    rest.length === 0 ? "" : ` ${rest.join(" ")}`,
  ]);
}

function isEmpty(value: unknown): boolean {
  return (
    value === null ||
    value === undefined ||
    (typeof value === "object" && !Array.isArray(value) && Object.keys(value).length === 0)
  );
}

function fieldText(name: string, value: unknown): string {
  if (name === "hash" && typeof value === "string") return value.slice(0, HASH_CHARS);
  if (TIMES.has(name) && typeof value === "number") return showTime(value).replace(" ", "T");
  if (name === "error") return errorText(value);
  return typeof value === "string" ? value : JSON.stringify(value);
}

/** Returns the message of an error without its stack. Only `--json` shows the stack. */
function errorText(error: unknown): string {
  if (typeof error === "string") return error;
  const { code, name, message } = (error ?? {}) as Readonly<Record<string, unknown>>;
  const kind = code ?? name;
  const isOurs = typeof message === "string" && typeof kind === "string";
  return JSON.stringify(isOurs ? `${kind}: ${message}` : error);
}
