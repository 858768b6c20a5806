/**
 * A schedule as three documents, so that whoever changes one overwrites nothing of another's:
 * 1. `<id>`: what users say of it (`put`, pause, resume), at whichever node; with how far it had come by then.
 * 2. `<id> state`: how far it has come since, written by the node that fires it, and by nobody else.
 * 3. `<id> run`: what was started by hand last, at whichever node.
 * The second and third name the schedule's creation: what is left of a schedule that was removed is nothing's.
 */
import { decode, encode, type Schedule, type ScheduleState } from "./schedule.ts";

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

/** The schedule that documents make together; null: a version that this one does not know has written it. */
export function assembleSchedule(bodies: Bodies): StoredSchedule | null {
  const schedule = decode<Schedule>(bodies.said);
  if (schedule === null) return null;
  const come = ownOf<Progress>(schedule, bodies.state);
  const ran = ownOf<ManualRun & { of: number }>(schedule, bodies.run);
  const run = ran === null ? null : { execution: ran.execution, isStarted: ran.isStarted };
  const state = come === null ? schedule.state : join(schedule, come.state);
  const isTold = run === null || (come !== null && isSame(come.run, run));
  return { schedule: { ...schedule, state: isTold ? state : tell(state, run) }, run };
}

function ownOf<T extends { readonly of: number }>({ createdAt }: Schedule, body: string | null): T | null {
  const content = body === null ? null : decode<T>(body);
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
