/** Schedules in the store: documents of the kind `schedule`, by id. */
import { NAME_PATTERN } from "../kernel/definition.ts";
import { isRejection, type Rejection, reject } from "../std/rejection.ts";
import type { Store } from "../store/store.ts";
import { CronTimes } from "./cron-times.ts";
import { decodeSchedule, encodeSchedule, type Schedule } from "./schedule.ts";

const KIND = "schedule";
const PAGE = 200;
const LIST_MAX = 1_000;
/** A page ends early once the inputs on it have about so many characters. */
const LIST_CHARS = 4_194_304;
const NEXT_SHOWN = 5;

/** A schedule as others see it, with its next due times. */
export interface ScheduleView extends Schedule {
  readonly next: readonly number[];
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

  async read(id: string): Promise<Schedule | null> {
    const body = await this.#store.getDocument(KIND, id);
    return body === null ? null : decodeSchedule(body);
  }

  async write(schedule: Schedule): Promise<void> {
    await this.#store.putDocument(KIND, schedule.id, encodeSchedule(schedule));
  }

  async remove(id: string): Promise<void> {
    await this.#store.putDocument(KIND, id, null);
  }

  /** All schedules in the order of their ids; those that cannot be read are told and left out. */
  async *all(onUnreadable: (why: Error) => void, from = ""): AsyncGenerator<Schedule> {
    let after = from;
    for (;;) {
      const page = await this.#store.listDocuments(KIND, { after, max: PAGE });
      for (const { id, body } of page) {
        after = id;
        const schedule = decodeSchedule(body);
        if (schedule !== null && !isRejection(CronTimes.parse(schedule.cron, schedule.timeZone)))
          yield schedule;
        else onUnreadable(new Error(`schedule ${id} is left alone: this version cannot read it`));
      }
      if (page.length < PAGE) return;
    }
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
