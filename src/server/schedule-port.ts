/** What the API needs of the desk of schedules. */
import type { Rejection } from "../std/rejection.ts";

/** A schedule as the desk shows it. */
export interface ScheduleShown {
  readonly id: string;
  readonly workflow: string;
  readonly project: string;
}

/** A page of schedules, and those of it that cannot be read. */
export interface SchedulesShown {
  readonly data: readonly ScheduleShown[];
  readonly next: string | null;
  readonly damaged?: readonly { readonly id: string; readonly damage: string; readonly hint: string }[];
}

export interface SchedulePort {
  put(data: unknown): Promise<{ readonly schedule: ScheduleShown; readonly created: boolean } | Rejection>;
  /** A rejection with `wrong_status`: the schedule is damaged. */
  get(id: string): Promise<ScheduleShown | Rejection>;
  list(filter: {
    readonly project?: string;
    readonly workflow?: string;
    readonly limit?: number;
    readonly cursor?: string;
  }): Promise<SchedulesShown | Rejection>;
  remove(id: string): Promise<Rejection | null>;
  pause(id: string): Promise<ScheduleShown | Rejection>;
  resume(id: string): Promise<ScheduleShown | Rejection>;
  runNow(
    id: string,
    key: string | null,
  ): Promise<{ readonly execution: string; readonly existed: boolean } | Rejection>;
}
