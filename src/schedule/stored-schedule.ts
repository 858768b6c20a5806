/**
 * A schedule as three documents, so that whoever changes one overwrites nothing of another's:
 * 1. `<id>`: what users say of it (`put`, pause, resume), at whichever node; with how far it had come by then.
 * 2. `<id> state`: how far it has come since, written by the node that fires it, and by nobody else.
 * 3. `<id> run`: what was started by hand last, at whichever node.
 * The second and third name the schedule's creation: what is left of a schedule that was removed is nothing's.
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

/** The kind of all three. */
export const SCHEDULE_KIND = "schedule";

/** What was started by hand last. */
export interface ManualRun {
  readonly execution: string;
  /** Its start was acknowledged. */
  readonly isStarted: boolean;
}

/** A schedule as its documents say. */
export interface StoredSchedule {
  readonly schedule: Schedule;
  readonly run: ManualRun | null;
}

/** The bodies of a schedule's documents; null: there is none. */
export interface Bodies {
  readonly said: string;
  readonly state: string | null;
  readonly run: string | null;
}

/** How far a schedule has come; what was started by hand until then is told in it. */
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

/** What users say of a schedule. */
const SAID = formOf<Schedule>((value) => isSaid(value) && hasTimes(value as Schedule));

/** How far a schedule has come; what was started by hand until then is told in it. */
const PROGRESS = formOf<Progress>(fields({ of: isNumber, state: isState, run: orNull(isRun) }));

/** What was started by hand. */
const RUN = formOf<ManualRun & { readonly of: number }>(
  (value) => isRun(value) && fields({ of: isNumber })(value),
);

function hasTimes({ cron, timeZone }: Schedule): boolean {
  return !isRejection(CronTimes.parse(cron, timeZone));
}

/** The form of a document with the version of its form in it. */
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

/** The id of a document beside the one that has the schedule's own id. */
export function partId(id: string, part: "run" | "state"): string {
  return `${id} ${part}`;
}

/** Which schedule a document is of, and which of its documents it is. */
export function partOf(document: string): { readonly id: string; readonly part: keyof Bodies } {
  const [id = "", part] = document.split(" ");
  return { id, part: part === "run" || part === "state" ? part : "said" };
}

/** The body of the document that says how far a schedule has come. */
export function encodeProgress({ schedule, run }: StoredSchedule): string {
  return encode({ of: schedule.createdAt, state: schedule.state, run } satisfies Progress);
}

/** The body of the document about what was started by hand. */
export function encodeRun({ createdAt }: Schedule, run: ManualRun): string {
  return encode({ of: createdAt, ...run });
}

/** The form of the document of an id. */
export function formOfPart(document: string): DocumentForm<object> {
  return { said: SAID, state: PROGRESS, run: RUN }[partOf(document).part];
}

/** The schedule that documents make together; throws `DamagedData` if one of them cannot be read. */
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

/** What users have said since counts; the rest is as the owner says. */
function join({ state: said, timedSince = 0, updatedAt }: Schedule, come: ScheduleState): ScheduleState {
  const { queued, lastError } = come;
  return {
    ...come,
    paused: said.paused,
    after: Math.max(said.after, come.after),
    // One of times that were changed since is none any more.
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
