/**
 * A schedule is stored in three documents, so that writers do not overwrite each other's parts:
 * 1. `<id>`: the user's part (create, pause, resume), written by any node; with the progress at that time.
 * 2. `<id> state`: the progress since, written only by the node that fires the schedule.
 * 3. `<id> run`: the last manual run, written by any node.
 * The second and third contain the creation time of the schedule. Documents of a removed schedule are therefore ignored.
 */

import { isRejection } from "../std/rejection.ts";
import {
  type DocumentForm,
  fields,
  isFlag,
  isNumber,
  isText,
  jsonForm,
  oneOf,
  orNull,
  parseDocument,
} from "../store/document-form.ts";
import { CronTimes } from "./cron-times.ts";
import { encode, MISFIRES, OVERLAPS, type Schedule, type ScheduleState, VERSION } from "./schedule.ts";

/** The kind of all three documents. */
export const SCHEDULE_KIND = "schedule";

/** The last manual run. */
export interface ManualRun {
  readonly execution: string;
  /** Its start was acknowledged. */
  readonly isStarted: boolean;
}

/** A schedule assembled from its documents. */
export interface StoredSchedule {
  readonly schedule: Schedule;
  readonly run: ManualRun | null;
}

/** The bodies of a schedule's documents; null if there is none. */
export interface Bodies {
  readonly said: string;
  readonly state: string | null;
  readonly run: string | null;
}

/** The progress of a schedule. It covers manual runs up to then. */
interface Progress {
  readonly of: number;
  readonly state: ScheduleState;
  readonly run: ManualRun | null;
}

const isState = fields({
  paused: isFlag,
  after: isNumber,
  starting: orNull(isNumber),
  lastDue: orNull(isNumber),
  lastExecution: orNull(isText),
  queued: orNull(isNumber),
  skipped: isNumber,
  dropped: isNumber,
  misfires: orNull(fields({ missed: isNumber, left: isNumber })),
  lastError: orNull(fields({ at: isNumber })),
});

const isRun = fields({ execution: isText, isStarted: isFlag });

const isSaid = fields({
  id: isText,
  workflow: isText,
  cron: isText,
  timeZone: isText,
  misfire: oneOf(MISFIRES),
  overlap: oneOf(OVERLAPS),
  project: isText,
  tags: fields({}),
  createdAt: isNumber,
  updatedAt: isNumber,
  state: isState,
});

/** The user's part. */
const SAID = formOf<Schedule>((value) => isSaid(value) && hasTimes(value as Schedule));

const PROGRESS = formOf<Progress>(fields({ of: isNumber, state: isState, run: orNull(isRun) }));

const RUN = formOf<ManualRun & { readonly of: number }>(
  (value) => isRun(value) && fields({ of: isNumber })(value),
);

function hasTimes({ cron, timeZone }: Schedule): boolean {
  return !isRejection(CronTimes.parse(cron, timeZone));
}

/** The form of a document that contains its version. */
function formOf<T>(check: (value: unknown) => boolean): DocumentForm<T> {
  const { kind, parse } = jsonForm<{ readonly v: number }>(SCHEDULE_KIND, fields({ v: isNumber }));
  return {
    kind,
    parse: (body) => {
      const { v, ...content } = parse(body);
      if (v !== VERSION) throw new Error(`it has version ${v}, which this version of Rondo does not know`);
      if (!check(content)) throw new Error("it does not have the fields of a schedule");
      return content as T;
    },
  };
}

/** The id of the second or third document. */
export function partId(id: string, part: "run" | "state"): string {
  return `${id} ${part}`;
}

/** The schedule and the part that a document id belongs to. */
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
  return { schedule: { ...schedule, state: isTold ? state : tell(state, run) }, run };
}

function ownOf<T extends { readonly of: number }>({ createdAt }: Schedule, content: T | null): T | null {
  return content?.of === createdAt ? content : null;
}

/** Later changes by the user count; the rest is as the firing node stored it. */
function join({ state: said, timedSince = 0, updatedAt }: Schedule, come: ScheduleState): ScheduleState {
  const { queued, lastError } = come;
  return {
    ...come,
    paused: said.paused,
    after: Math.max(said.after, come.after),
    // A queued due time of former times is dropped.
    queued: queued !== null && queued > timedSince ? queued : null,
    lastError: lastError !== null && lastError.at > updatedAt ? lastError : null,
  };
}

function tell(state: ScheduleState, { execution, isStarted }: ManualRun): ScheduleState {
  return { ...state, lastExecution: execution, lastError: isStarted ? null : state.lastError };
}

function isSame(a: ManualRun | null, b: ManualRun): boolean {
  return a?.execution === b.execution && a.isStarted === b.isStarted;
}
