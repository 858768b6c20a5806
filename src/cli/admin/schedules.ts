/** `rondo schedules`: lists and changes schedules, which start executions at set times. */
import type { Schedule, ScheduleList } from "../../server/schemas/schedule.ts";
import { defined } from "../../std/defined.ts";
import { showDuration } from "../../std/duration.ts";
import { print, printAnswer, printJson, printLine, printRows } from "../output/print.ts";
import type { Column } from "../output/table.ts";
import { readInput } from "../read-input.ts";
import { type Flags, type ServerFlags, withServer } from "../server/find-server.ts";
import { wholePages } from "../server/read-pages.ts";

export type SchedulePutFlags = ServerFlags &
  Flags<"input" | "timeZone" | "misfire" | "overlap" | "project"> & {
    readonly workflow: string;
    readonly cron: string;
  };

export type ScheduleAction = "pause" | "resume" | "run" | "rm";

const PATH = "/v1/schedules";

/** Lists the schedules. */
export async function listSchedules(options: ServerFlags): Promise<void> {
  return withServer(options, async ({ rondo }) => {
    const all: Schedule[] = [];
    const unreadable: NonNullable<ScheduleList["damaged"]>[number][] = [];
    for await (const { data, damaged = [] } of wholePages<ScheduleList>(rondo.requester, PATH)) {
      all.push(...data);
      unreadable.push(...damaged);
    }
    printRows(all, columnsAt(Date.now()), { json: options.json, none: "no schedules" });
    for (const { id, damage, hint } of unreadable)
      printLine(`schedule ${id} is damaged: ${damage} (${hint})`);
  });
}

/** Creates or changes a schedule. */
export async function putSchedule(id: string, options: SchedulePutFlags): Promise<void> {
  const { workflow, cron, timeZone, misfire, overlap, project } = options;
  const input = options.input === undefined ? undefined : await readInput(options.input, printLine);
  return withServer(options, async ({ rondo }) => {
    const body = { id, workflow, cron, ...defined({ input, timeZone, misfire, overlap, project }) };
    const schedule = await rondo.requester.json<Schedule>(PATH, { method: "POST", body });
    printAnswer(options, schedule, `schedule ${id} is stored; ${nextOf(schedule)}`);
  });
}

const SAYS: Readonly<Record<"pause" | "resume" | "rm", string>> = {
  pause: "is paused: it starts nothing until it is resumed",
  resume: "goes on",
  rm: "was removed; executions that it has started continue",
};

/** Pauses, resumes, runs or removes a schedule. */
export async function changeSchedule(
  action: ScheduleAction,
  id: string,
  options: ServerFlags,
): Promise<void> {
  return withServer(options, async ({ rondo }) => {
    const path = `${PATH}/${encodeURIComponent(id)}`;
    const answer = await (action === "rm"
      ? rondo.requester.json<unknown>(path, { method: "DELETE" })
      : rondo.requester.json<unknown>(`${path}/${action}`, { method: "POST" }));
    if (options.json) printJson(answer ?? { id });
    else if (action === "run") {
      print(startedBy(answer));
      printLine(`started by schedule ${id}`);
    } else printLine(`schedule ${id} ${SAYS[action]}`);
  });
}

function startedBy(answer: unknown): string {
  const { execution, id } = (answer ?? {}) as { execution?: unknown; id?: unknown };
  return String(execution ?? id);
}

function columnsAt(now: number): Column<Schedule>[] {
  return [
    { title: "ID", value: ({ id }) => id },
    { title: "WORKFLOW", value: ({ workflow }) => workflow },
    { title: "CRON", value: ({ cron }) => cron },
    { title: "TIME ZONE", value: ({ timeZone }) => timeZone },
    {
      title: "NEXT",
      value: ({ state, next: [due] }) =>
        state.paused ? "paused" : due === undefined ? null : `in ${showDuration(Math.max(0, due - now))}`,
      style: ({ state }) => (state.paused ? "yellow" : null),
    },
    { title: "LAST", value: ({ state }) => state.lastExecution },
    {
      title: "ERROR",
      value: ({ problem, state }) => problem?.message ?? state.lastError?.message ?? null,
      style: () => "red",
    },
  ];
}

function nextOf({ next: [due], state }: Schedule): string {
  if (state.paused) return "it is paused";
  return due === undefined
    ? "the schedule has no further due time"
    : `next at ${new Date(due).toISOString()}`;
}
