/** Schedules in the store: documents of the kind `schedule` (stored-schedule.ts). */
import { NAME_PATTERN } from "../kernel/definition.ts";
import { sha256 } from "../std/hash.ts";
import { isRejection, type Rejection, reject } from "../std/rejection.ts";
import type { Store, StoredDocument } from "../store/store.ts";
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
  type StoredSchedule,
} from "./stored-schedule.ts";

const KIND = "schedule";
/** One document, which is another whenever somebody has changed a schedule. */
const MARK = "schedule-mark";
const PAGE = 200;
const LIST_MAX = 1_000;
/** A page ends early once the inputs on it have about so many characters. */
const LIST_CHARS = 4_194_304;
const NEXT_SHOWN = 5;

/** A schedule as others see it, with its next due times. */
export interface ScheduleView extends Schedule {
  readonly next: readonly number[];
  /** Why a start would be refused now, such as an input that does not fit its workflow any more; null: it would not be. */
  readonly problem?: Problem;
}

export interface ScheduleFilter {
  readonly project?: string;
  readonly workflow?: string;
  readonly limit?: number;
  /** The `next` of a page. */
  readonly cursor?: string;
}

/** A page of schedules; `next` is the cursor of the page after it. */
export interface SchedulePage {
  readonly data: readonly ScheduleView[];
  readonly next: string | null;
}

export class ScheduleBook {
  readonly #store: Pick<Store, "putDocument" | "getDocument" | "listDocuments">;

  constructor(store: Pick<Store, "putDocument" | "getDocument" | "listDocuments">) {
    this.#store = store;
  }

  async read(id: string): Promise<StoredSchedule | null> {
    const [said, state, run] = await Promise.all(
      [id, partId(id, "state"), partId(id, "run")].map((one) => this.#store.getDocument(KIND, one)),
    );
    return said === undefined || said === null
      ? null
      : assembleSchedule({ said, state: state ?? null, run: run ?? null });
  }

  /** Writes what users say of a schedule. */
  async write(schedule: Schedule): Promise<void> {
    await this.#store.putDocument(KIND, schedule.id, encode(schedule));
  }

  /** Writes how far a schedule has come; only for the one that fires it. */
  async writeProgress(stored: StoredSchedule): Promise<void> {
    await this.#store.putDocument(KIND, partId(stored.schedule.id, "state"), encodeProgress(stored));
  }

  /** Writes what was started by hand. */
  async writeRun(schedule: Schedule, run: ManualRun | null): Promise<void> {
    const body = run === null ? null : encodeRun(schedule, run);
    await this.#store.putDocument(KIND, partId(schedule.id, "run"), body);
  }

  async remove(id: string): Promise<void> {
    await this.#store.putDocument(KIND, id, null);
    for (const part of ["state", "run"] as const) await this.#store.putDocument(KIND, partId(id, part), null);
  }

  /** Has others see that something was changed. */
  async putMark(mark: string): Promise<void> {
    await this.#store.putDocument(MARK, MARK, mark);
  }

  async readMark(): Promise<string> {
    return (await this.#store.getDocument(MARK, MARK)) ?? "";
  }

  /** All schedules in the order of their ids; those that cannot be read are told and left out. */
  async *all(onUnreadable: (why: Error) => void, from = ""): AsyncGenerator<Schedule> {
    for await (const { id, bodies } of this.#bodies(from)) {
      const schedule = assembleSchedule(bodies)?.schedule;
      if (schedule !== undefined && !isRejection(CronTimes.parse(schedule.cron, schedule.timeZone)))
        yield schedule;
      else onUnreadable(new Error(`schedule ${id} is ignored: it is damaged, or of a newer version`));
    }
  }

  /** What users have said and done, of all schedules: the name of it is another when that is. */
  async *said(): AsyncGenerator<{ readonly id: string; readonly name: string }> {
    for await (const { id, bodies } of this.#bodies(""))
      yield { id, name: sha256(`${bodies.said}\n${bodies.run ?? ""}`) };
  }

  /** The documents of each schedule; those that belong to none are left out. */
  async *#bodies(from: string): AsyncGenerator<{ readonly id: string; readonly bodies: Bodies }> {
    // A schedule's own document comes before its others, and nothing comes between them.
    let after = from === "" ? "" : partId(from, "state");
    let open: { id: string; bodies: { -readonly [K in keyof Bodies]: Bodies[K] } } | null = null;
    for (;;) {
      const page = await this.#store.listDocuments(KIND, { after, max: PAGE });
      for (const document of page) {
        after = document.id;
        const { id, part } = partOf(document.id);
        if (part === "said") {
          if (open !== null) yield open;
          open = { id, bodies: { said: bodyOf(document), state: null, run: null } };
        } else if (open?.id === id) {
          if (document.damage === undefined) open.bodies[part] = document.body;
          else open.bodies.said = UNREADABLE;
        }
      }
      if (page.length < PAGE) break;
    }
    if (open !== null) yield open;
  }

  async list(filter: ScheduleFilter, now: number): Promise<SchedulePage | Rejection> {
    const { project, workflow, limit = 50, cursor = "" } = filter;
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
    for await (const schedule of this.all(() => undefined, cursor)) {
      if (project !== undefined && schedule.project !== project) continue;
      if (workflow !== undefined && schedule.workflow !== workflow) continue;
      if (data.length === limit || chars >= LIST_CHARS) return { data, next: data.at(-1)?.id ?? null };
      data.push(viewSchedule(schedule, now));
      chars += JSON.stringify(schedule.input).length;
    }
    return { data, next: null };
  }
}

/** What stands for a document that is damaged: no version has written it. */
const UNREADABLE = '{"v":0}';

function bodyOf({ body, damage }: StoredDocument): string {
  return damage === undefined ? body : UNREADABLE;
}

/** The view of a schedule: when it is paused, nothing is next. */
export function viewSchedule(schedule: Schedule, now: number, shown = NEXT_SHOWN): ScheduleView {
  const next: number[] = [];
  const times = CronTimes.parse(schedule.cron, schedule.timeZone);
  if (!schedule.state.paused && !isRejection(times)) {
    let due = times.next(Math.max(now, schedule.state.after));
    for (; due !== null && next.length < shown; due = times.next(due)) next.push(due);
  }
  return { ...schedule, next };
}
