/** Schedules in the store: documents of the kind `schedule` (stored-schedule.ts). */
import { NAME_PATTERN } from "../kernel/definition/definition.ts";
import { DamagedData } from "../kernel/journal/damage.ts";
import { sha256 } from "../std/hash.ts";
import { isRejection, type Rejection, reject } from "../std/rejection.ts";
import { damaged } from "../store/document-form.ts";
import type { Store } from "../store/store.ts";
import { CronTimes } from "./cron-times.ts";
import { encode, type Schedule } from "./schedule.ts";
import type { Problem } from "./start-checks.ts";
import {
  assembleSchedule,
  type Bodies,
  encodeProgress,
  encodeRun,
  type ManualRun,
  partId,
  partOf,
  SCHEDULE_KIND,
  type StoredSchedule,
} from "./stored-schedule.ts";

/** The kind of the document (the mark) that changes whenever a schedule is changed. */
const MARK = "schedule-mark";
const PAGE = 200;
const LIST_MAX = 1_000;
/** The number of characters after which a page of schedules ends, even if it has few schedules with large inputs. */
const LIST_CHARS = 4_194_304;
const NEXT_SHOWN = 5;

/** A schedule with its next due times. */
export interface ScheduleView extends Schedule {
  readonly next: readonly number[];
  /** Why a start would be refused now, for example because the input no longer matches the schema; null if it would be accepted. */
  readonly problem?: Problem;
}

export interface ScheduleFilter {
  readonly project?: string;
  readonly workflow?: string;
  /** Words that the id, the workflow, the times, or the state (`paused`, `failing`) of a schedule must contain. */
  readonly q?: string;
  readonly limit?: number;
  /** The cursor of the page to read: `next` of the page before it. */
  readonly cursor?: string;
}

/** A page of schedules; `next` is the cursor of the following page. */
export interface SchedulePage {
  readonly data: readonly ScheduleView[];
  readonly next: string | null;
  /** Damaged schedules on this page, which start nothing. Left out if a filter is given that depends on the content of schedules. */
  readonly damaged?: readonly DamagedSchedule[];
}

/** A schedule that cannot be read. */
export interface DamagedSchedule {
  readonly id: string;
  readonly damage: string;
  readonly hint: string;
}

export class ScheduleStore {
  readonly #store: Pick<Store, "putDocument" | "getDocument" | "listDocuments">;

  constructor(store: Pick<Store, "putDocument" | "getDocument" | "listDocuments">) {
    this.#store = store;
  }

  /** Reads a schedule; null if there is none. Throws `DamagedData` if a document cannot be read. */
  async read(id: string): Promise<StoredSchedule | null> {
    const [said, state, run] = await Promise.all(
      [id, partId(id, "state"), partId(id, "run")].map((one) => this.#store.getDocument(SCHEDULE_KIND, one)),
    );
    return said === undefined || said === null
      ? null
      : assembleSchedule(id, { said, state: state ?? null, run: run ?? null });
  }

  /** Stores the user's part of a schedule. */
  async write(schedule: Schedule): Promise<void> {
    await this.#store.putDocument(SCHEDULE_KIND, schedule.id, encode(schedule));
  }

  /** Stores the progress of a schedule. Only the node that runs the schedule does this. */
  async writeProgress(stored: StoredSchedule): Promise<void> {
    await this.#store.putDocument(SCHEDULE_KIND, partId(stored.schedule.id, "state"), encodeProgress(stored));
  }

  /** Stores the last manual run of a schedule. */
  async writeRun(schedule: Schedule, run: ManualRun | null): Promise<void> {
    const body = run === null ? null : encodeRun(schedule, run);
    await this.#store.putDocument(SCHEDULE_KIND, partId(schedule.id, "run"), body);
  }

  async remove(id: string): Promise<void> {
    await this.#store.putDocument(SCHEDULE_KIND, id, null);
    await this.forgetParts(id);
  }

  /** Removes the progress and the manual run of a schedule. */
  async forgetParts(id: string): Promise<void> {
    for (const part of ["state", "run"] as const)
      await this.#store.putDocument(SCHEDULE_KIND, partId(id, part), null);
  }

  /** Changes the mark in the store. Other nodes notice by it that a schedule was changed. */
  async putMark(mark: string): Promise<void> {
    await this.#store.putDocument(MARK, MARK, mark);
  }

  async readMark(): Promise<string> {
    return (await this.#store.getDocument(MARK, MARK)) ?? "";
  }

  /** Yields all schedules in the order of their ids, including damaged ones. */
  async *all(from = ""): AsyncGenerator<Schedule | DamagedSchedule> {
    for await (const { id, bodies, damage } of this.#bodies(from)) {
      try {
        if (damage !== null) throw damage;
        yield assembleSchedule(id, bodies).schedule;
      } catch (thrown) {
        if (!(thrown instanceof DamagedData)) throw thrown;
        yield damagedSchedule(id, thrown);
      }
    }
  }

  /** Returns for each schedule one text with the user's part and the manual run. If the text differs, the schedule was changed. */
  async *said(): AsyncGenerator<{ readonly id: string; readonly name: string }> {
    for await (const { id, bodies, damage } of this.#bodies(""))
      yield { id, name: sha256(`${bodies.said}\n${bodies.run ?? ""}\n${damage?.message ?? ""}`) };
  }

  /** Reads the documents of each schedule. Documents of schedules that do not exist are left out. */
  async *#bodies(from: string): AsyncGenerator<Found> {
    // In the order of ids, the main document of a schedule comes directly before its other two documents.
    let after = from === "" ? "" : partId(from, "state");
    let open: Found | null = null;
    for (;;) {
      const page = await this.#store.listDocuments(SCHEDULE_KIND, { after, max: PAGE });
      for (const { id: document, body, damage } of page) {
        after = document;
        const { id, part } = partOf(document);
        if (part === "said") {
          if (open !== null) yield open;
          open = { id, bodies: { said: body, state: null, run: null }, damage: null };
        } else if (open?.id === id) open.bodies[part] = body;
        else continue;
        if (damage !== undefined) open.damage = damaged(SCHEDULE_KIND, { id: document, damage });
      }
      if (page.length < PAGE) break;
    }
    if (open !== null) yield open;
  }

  async list(filter: ScheduleFilter, now: number): Promise<SchedulePage | Rejection> {
    const { project, workflow, q = "", limit = 50, cursor = "" } = filter;
    const words = q.toLowerCase().split(/\s+/).filter(Boolean);
    for (const [path, name] of Object.entries({ project, workflow })) {
      if (name !== undefined && !NAME_PATTERN.test(name))
        return reject("invalid_input", `${path}: "${name.slice(0, 60)}" is not a name`, { path });
    }
    if (!Number.isSafeInteger(limit) || limit < 1 || limit > LIST_MAX) {
      return reject("invalid_input", `limit: ${limit} is not a whole number from 1 to ${LIST_MAX}`, {
        path: "limit",
      });
    }
    const data: ScheduleView[] = [];
    let chars = 0;
    const unreadable: DamagedSchedule[] = [];
    const isFiltered = project !== undefined || workflow !== undefined || words.length > 0;
    const page = (next: string | null): SchedulePage => {
      const shown = unreadable.filter(({ id }) => !isFiltered && (next === null || id < next));
      return { data, next, ...(shown.length === 0 ? {} : { damaged: shown }) };
    };
    for await (const schedule of this.all(cursor)) {
      if ("damage" in schedule) {
        unreadable.push(schedule);
        continue;
      }
      if (project !== undefined && schedule.project !== project) continue;
      if (workflow !== undefined && schedule.workflow !== workflow) continue;
      if (!hasWords(schedule, words)) continue;
      if (data.length === limit || chars >= LIST_CHARS) return page(data.at(-1)?.id ?? null);
      data.push(viewSchedule(schedule, now));
      chars += JSON.stringify(schedule.input).length;
    }
    return page(null);
  }
}

function hasWords({ id, workflow, cron, timeZone, state }: Schedule, words: readonly string[]): boolean {
  if (words.length === 0) return true;
  const states = `${state.paused ? "paused" : ""} ${state.lastError === null ? "" : "failing"}`;
  const text = `${id} ${workflow} ${cron} ${timeZone} ${states}`.toLowerCase();
  return words.every((word) => text.includes(word));
}

/** The documents of a schedule, and the damage if one of them cannot be read. */
interface Found {
  readonly id: string;
  readonly bodies: { -readonly [K in keyof Bodies]: Bodies[K] };
  damage: DamagedData | null;
}

export function damagedSchedule(id: string, { message }: DamagedData): DamagedSchedule {
  return { id, damage: message, hint: `create schedule ${id} again, or delete it: rondo schedules rm ${id}` };
}

/** Makes the fault that is logged for a damaged schedule. */
export function damagedFault({ id, damage, hint }: DamagedSchedule): Error {
  return new Error(`schedule ${id} is damaged and starts nothing: ${damage} (${hint})`);
}

/** Makes the rejection for a request about a damaged schedule. */
export function refuseDamaged(id: string, thrown: DamagedData): Rejection {
  const { damage, hint } = damagedSchedule(id, thrown);
  return reject("wrong_status", `schedule "${id}" is damaged: ${damage}`, { path: "id", hint });
}

/** Makes the view of a schedule. A paused schedule has no next due time. */
export function viewSchedule(schedule: Schedule, now: number, shown = NEXT_SHOWN): ScheduleView {
  const next: number[] = [];
  const times = CronTimes.parse(schedule.cron, schedule.timeZone);
  if (!schedule.state.paused && !isRejection(times)) {
    let due = times.next(Math.max(now, schedule.state.after));
    for (; due !== null && next.length < shown; due = times.next(due)) next.push(due);
  }
  return { ...schedule, next };
}
