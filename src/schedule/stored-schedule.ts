/**
 * A schedule is stored in three documents, so that writers do not overwrite each other's parts:
 * 1. `<id>`: the user's part (create, pause, resume), written by any node. It also has the progress at the time of the write.
 * 2. `<id> state`: the progress since then, written only by the node that runs the schedule.
 * 3. `<id> run`: the last manual run, written by any node. The second and the third also have the creation time of the schedule. If it
 *    differs, they belong to a removed schedule of the same id and are ignored.
 */
import { checked, type Decode, flag, KEPT, number, object, oneOf, orNull, string } from "../std/decode.ts";
import { isRejection } from "../std/rejection.ts";
import { type DocumentForm, jsonForm, parseDocument } from "../store/document-form.ts";
import { CronTimes } from "./cron-times.ts";
import { encode, MISFIRES, OVERLAPS, type Schedule, type ScheduleState, VERSION } from "./schedule.ts";

/** The kind of all three documents. */
export const SCHEDULE_KIND = "schedule";

/** The last run that a user started by hand. */
export interface ManualRun {
  readonly execution: string;
  /** Whether the engine has acknowledged the start. */
  readonly isStarted: boolean;
}

/** A schedule assembled from its documents. */
export interface StoredSchedule {
  readonly schedule: Schedule;
  readonly run: ManualRun | null;
}

/** The bodies of a schedule's documents; null for a document that does not exist. */
export interface Bodies {
  readonly said: string;
  readonly state: string | null;
  readonly run: string | null;
}

/** The progress of a schedule. Manual runs up to the time of the write are included. */
interface Progress {
  readonly of: number;
  readonly state: ScheduleState;
  readonly run: ManualRun | null;
}

const stateForm = object(
  {
    paused: flag,
    after: number,
    starting: orNull(number),
    lastDue: orNull(number),
    lastExecution: orNull(string),
    queued: orNull(number),
    skipped: number,
    dropped: number,
    misfires: orNull(object({ missed: number, left: number }, KEPT)),
    lastError: orNull(object({ at: number }, KEPT)),
  },
  KEPT,
);

const runFields = { execution: string, isStarted: flag };

const saidForm = object(
  {
    id: string,
    workflow: string,
    cron: string,
    timeZone: string,
    misfire: oneOf(MISFIRES),
    overlap: oneOf(OVERLAPS),
    project: string,
    tags: object({}, KEPT),
    createdAt: number,
    updatedAt: number,
    state: stateForm,
  },
  KEPT,
);

/** The decoder of the user's part of a schedule. */
const SAID = formOf<Schedule>(
  checked(saidForm, ({ cron, timeZone }) => {
    const times = CronTimes.parse(cron, timeZone);
    return isRejection(times) ? times : null;
  }),
);

const PROGRESS = formOf<Progress>(
  object({ of: number, state: stateForm, run: orNull(object(runFields, KEPT)) }, KEPT),
);

const RUN = formOf<ManualRun & { readonly of: number }>(object({ ...runFields, of: number }, KEPT));

/** The decoder of a document that contains the version of its format. */
function formOf<T>(read: Decode<unknown>): DocumentForm<T> {
  const { kind, parse } = jsonForm<{ readonly v: number }>(SCHEDULE_KIND, object({ v: number }, KEPT));
  return {
    kind,
    parse: (body) => {
      const { v, ...content } = parse(body);
      if (v !== VERSION)
        throw new Error(`the document has version ${v}, which this version of Rondo does not know`);
      return read(content) as T;
    },
  };
}

/** Returns the id of the second or third document of a schedule. */
export function partId(id: string, part: "run" | "state"): string {
  return `${id} ${part}`;
}

/** Returns the schedule and the part to which a document id belongs. */
export function partOf(document: string): { readonly id: string; readonly part: keyof Bodies } {
  const [id = "", part] = document.split(" ");
  return { id, part: part === "run" || part === "state" ? part : "said" };
}

export function encodeProgress({ schedule, run }: StoredSchedule): string {
  return encode({ of: schedule.createdAt, state: schedule.state, run } satisfies Progress);
}

export function encodeRun({ createdAt }: Schedule, run: ManualRun): string {
  return encode({ of: createdAt, ...run });
}

export function formOfPart(document: string): DocumentForm<object> {
  return { said: SAID, state: PROGRESS, run: RUN }[partOf(document).part];
}

/** Assembles a schedule from its documents. Throws `DamagedData` if one cannot be read. */
export function assembleSchedule(id: string, bodies: Bodies): StoredSchedule {
  const schedule = parseDocument(SAID, id, bodies.said);
  const come = ownOf(
    schedule,
    bodies.state === null ? null : parseDocument(PROGRESS, partId(id, "state"), bodies.state),
  );
  const ran = ownOf(schedule, bodies.run === null ? null : parseDocument(RUN, partId(id, "run"), bodies.run));
  const run = ran === null ? null : { execution: ran.execution, isStarted: ran.isStarted };
  const state = come === null ? schedule.state : join(schedule, come.state);
  const isTold = run === null || (come !== null && isSame(come.run, run));
  return { schedule: { ...schedule, state: isTold ? state : withRun(state, run) }, run };
}

function ownOf<T extends { readonly of: number }>({ createdAt }: Schedule, content: T | null): T | null {
  return content?.of === createdAt ? content : null;
}

/**
 * Combines the parts of a schedule. Newer changes by the user are applied to the progress that the node that runs the schedule has
 * stored.
 */
function join({ state: said, timedSince = 0, updatedAt }: Schedule, come: ScheduleState): ScheduleState {
  const { queued, lastError } = come;
  return {
    ...come,
    paused: said.paused,
    after: Math.max(said.after, come.after),
    // If the times of the schedule were changed, a due time that was queued before the change is dropped.
    queued: queued !== null && queued > timedSince ? queued : null,
    lastError: lastError !== null && lastError.at > updatedAt ? lastError : null,
  };
}

function withRun(state: ScheduleState, { execution, isStarted }: ManualRun): ScheduleState {
  return { ...state, lastExecution: execution, lastError: isStarted ? null : state.lastError };
}

function isSame(a: ManualRun | null, b: ManualRun): boolean {
  return a?.execution === b.execution && a.isStarted === b.isStarted;
}
