/** `rondo logs ID`: prints the log lines of an execution's tasks, and follows them with --follow. */
import { followStream } from "../../client/follow-stream.ts";
import type { LogLine } from "../../server/schemas/execution.ts";
import { systemClock } from "../../std/clock.ts";
import { defined } from "../../std/defined.ts";
import { systemRandom } from "../../std/random.ts";
import { type Rejection, RondoError } from "../../std/rejection.ts";
import { CliError } from "../cli-error.ts";
import { EXIT, type ExitCode } from "../exit-code.ts";
import { printJson, printLine, printPainted } from "../output/print.ts";
import { showClock } from "../output/show-time.ts";
import { type Flags, type Server, type ServerFlags, withServer } from "../server/find-server.ts";
import { interruptible } from "../server/interruptible.ts";
import { readPages } from "../server/read-pages.ts";
import { isColoured, Painter, type Style } from "../style.ts";
import { refuseDamaged, showReadable } from "./show-readable.ts";

export type LogsFlags = ServerFlags & Flags<"phase" | "handler" | "task" | "level", "follow">;

const STYLES: Readonly<Record<string, Style>> = { error: "red", warn: "yellow", debug: "dim", run: "cyan" };
const LEVELS: readonly string[] = ["debug", "info", "warn", "error", "progress", "run"];
const RECONNECT_MS = 60_000;

/** Prints log lines. The progress that tasks report is printed only with --level progress or --json. */
export async function logs(id: string, options: LogsFlags): Promise<ExitCode> {
  const { phase, handler, level } = options;
  if (level !== undefined && !LEVELS.includes(level))
    throw new CliError(EXIT.usage, `--level: "${level}" is not a level`, [`there are: ${LEVELS.join(", ")}`]);
  const query = defined({ phase, handler, level, task: taskOf(options.task) });
  const painter = new Painter(isColoured(process.stdout));
  const show = (line: LogLine) => {
    if (options.json) printJson(line);
    else if (line.level !== "progress" || level === "progress") printPainted(lineText(line, painter));
  };
  const use = async ({ rondo }: Server): Promise<ExitCode> => {
    const path = `/v1/executions/${encodeURIComponent(id)}/logs`;
    if (!options.follow) {
      let count = 0;
      await showReadable(rondo.execution(id), async () => {
        for await (const line of readPages<LogLine>(rondo.requester, path, query)) {
          count++;
          show(line);
        }
      });
      if (count === 0 && !options.json) printLine("no logs");
      return EXIT.ok;
    }
    // An error is thrown if the server cannot be reached at first. If the connection is lost later, the stream reconnects.
    await rondo.execution(id).describe();
    const left = new AbortController();
    const handle = { [Symbol.asyncDispose]: async () => left.abort() };
    return interruptible(handle, async () => {
      const stream = followStream({
        requester: rondo.requester,
        path: () => path,
        query,
        clock: systemClock({ hold: true }),
        random: systemRandom,
        signal: left.signal,
        reconnectMs: RECONNECT_MS,
      });
      for await (const item of stream) {
        if (item !== "ended" && item.kind === "damaged") {
          await refuseDamaged(rondo.execution(id));
          throw new RondoError(JSON.parse(item.data) as Rejection);
        }
        if (item !== "ended") show(JSON.parse(item.data) as LogLine);
        else if ((await rondo.execution(id).describe()).finishedAt !== null) return;
      }
    });
  };
  return withServer(options, use, { say: printLine });
}

function taskOf(text: string | undefined): number | undefined {
  if (text === undefined || /^\d{1,8}$/.test(text)) return text === undefined ? undefined : Number(text);
  throw new CliError(EXIT.usage, `--task: "${text}" is not the number of a task`);
}

function lineText(line: LogLine, painter: Painter): string {
  const { at, level, text, run, phase, handler, task, attempt } = line;
  const place = `${phase}/${handler}${task < 0 ? "" : `#${task}`}${attempt > 1 ? ` (attempt ${attempt})` : ""}`;
  const style = STYLES[level];
  const shown = text.replaceAll("\n", "\n  ");
  return painter.line([
    [`${showClock(at)} `, "dim"],
    [`${place}${run === undefined ? "" : ` ${run}`} `, "cyan"],
    style === undefined ? shown : [shown, style],
  ]);
}
