/**
 * The due times of a cron expression in a time zone. The library croner parses the expression and finds the matching local times. This
 * file decides when a local time is due if the clocks change for summer time:
 * - An expression that names certain hours means local times. A local time that the clocks skip is due at the moment of the change. A
 *   local time that occurs twice is due the first time only.
 * - An expression for every hour ("0 * * * *") means a regular interval: it is due whenever the clocks show a matching time, also twice.
 */
import { Cron, CronPattern } from "croner";
import { type Rejection, reject } from "../std/rejection.ts";
import { TimeZone } from "./time-zone.ts";

const SECOND_MS = 1_000;
/** The longest time by which clocks are set back at a change. */
const BACK_MAX_MS = 3 * 3_600_000;
const CRON_CHARS_MAX = 200;
/** The most compiled expressions in the cache. A compiled expression is large, and many schedules share one. */
const COMPILED_MAX = 200;

/** Nicknames of common expressions. The fields for which a nickname stands are stored, so that every version can read them. */
const NICKNAMES: Readonly<Record<string, string>> = {
  "@hourly": "0 * * * *",
  "@daily": "0 0 * * *",
  "@midnight": "0 0 * * *",
  "@weekly": "0 0 * * 0",
  "@monthly": "0 0 1 * *",
  "@yearly": "0 0 1 1 *",
  "@annually": "0 0 1 1 *",
};

/** Returns the fields for which a nickname stands. */
export function cronFields(cron: string): string {
  const text = cron.trim();
  return Object.hasOwn(NICKNAMES, text) ? (NICKNAMES[text] as string) : text;
}

interface Compiled {
  readonly cron: Cron;
  readonly isEveryHour: boolean;
  readonly isEverDue: boolean;
}

export class CronTimes {
  readonly #cron: string;
  readonly #zone: TimeZone;

  private constructor(cron: string, zone: TimeZone) {
    this.#cron = cron;
    this.#zone = zone;
  }

  /** Parses an expression and a time zone. Returns a rejection if one of them is wrong. */
  static parse(cron: unknown, timeZone: unknown): CronTimes | Rejection {
    const wrong = checkCron(cron);
    if (wrong !== null) return wrong;
    const zone = typeof timeZone === "string" ? TimeZone.named(timeZone) : null;
    if (zone !== null) return new CronTimes(cronFields(cron as string), zone);
    const shown = typeof timeZone === "string" ? `"${timeZone.slice(0, 60)}"` : `a ${typeof timeZone}`;
    return reject("invalid_input", `timeZone: ${shown} is not a time zone`, {
      path: "timeZone",
      hint: 'write an IANA name such as "UTC", "Europe/Berlin" or "America/New_York"',
    });
  }

  /** Returns the first due time after an instant; null if there is none. */
  next(after: number): number | null {
    const { cron, isEveryHour } = compiled(this.#cron);
    let wall: number | null = this.#zone.wallAt(after);
    let due: number | null = null;
    while (due === null) {
      wall = nextWall(cron, wall);
      if (wall === null) break;
      const instants: number[] = isEveryHour
        ? this.#zone.instantsOf(wall)
        : [this.#zone.firstInstantOf(wall)];
      due = instants.find((instant) => instant > after) ?? null;
    }
    return isEveryHour ? earlier(due, this.#nextAfterGoingBack(cron, after)) : due;
  }

  /** Returns the newest due time in (after, until]; null if there is none. */
  latest(after: number, until: number): number | null {
    const first = this.next(after);
    if (first === null || first > until) return null;
    // Binary search: `low` is always a due time, and no due time is later than `high`.
    let [low, high] = [first, until];
    while (high - low >= SECOND_MS) {
      const middle = low + Math.ceil((high - low) / 2);
      const due = this.next(middle - 1);
      if (due !== null && due <= until) low = due;
      else high = middle - 1;
    }
    return low;
  }

  /** Returns the number of due times in (after, until], counted up to `max`. */
  count(after: number, until: number, max: number): number {
    let counted = 0;
    for (let due = this.next(after); due !== null && due <= until && counted < max; due = this.next(due))
      counted++;
    return counted;
  }

  /** If the clocks are set back soon after this instant: returns the first matching time after that change. Otherwise returns null. */
  #nextAfterGoingBack(cron: Cron, after: number): number | null {
    const zone = this.#zone;
    const later = zone.offsetAt(after + BACK_MAX_MS);
    if (later >= zone.offsetAt(after)) return null;
    const change = zone.changeIn(after, after + BACK_MAX_MS);
    const wall = nextWall(cron, change + later - SECOND_MS);
    return wall === null ? null : wall - later;
  }
}

function earlier(a: number | null, b: number | null): number | null {
  return a === null || (b !== null && b < a) ? b : a;
}

function nextWall(cron: Cron, wall: number): number | null {
  return cron.nextRun(new Date(Math.floor(wall / SECOND_MS) * SECOND_MS))?.getTime() ?? null;
}

function checkCron(cron: unknown): Rejection | null {
  const bad = (why: string): Rejection =>
    reject("invalid_input", `cron: ${why}`, {
      path: "cron",
      hint: 'five fields (minute, hour, day, month, weekday) such as "30 6 * * mon-fri", six with seconds first, or one of @hourly, @daily, @weekly, @monthly, @yearly',
    });
  if (typeof cron !== "string") return bad("must be a text");
  const shown = `"${cron.slice(0, 60)}"`;
  if (cron.length > CRON_CHARS_MAX) return bad(`${shown} is longer than ${CRON_CHARS_MAX} characters`);
  const text = cronFields(cron);
  if (text.startsWith("@")) return bad(`${shown} is not a known nickname such as @daily`);
  const fields = text.split(/\s+/).length;
  if (fields !== 5 && fields !== 6) return bad(`${shown} does not have five or six fields`);
  try {
    if (!compiled(text).isEverDue) return bad(`${shown} is never due`);
  } catch (thrown) {
    if (!(thrown instanceof TypeError || thrown instanceof RangeError)) throw thrown;
    return bad(`${shown}: ${thrown.message.replace(/^CronPattern: /, "").slice(0, 200)}`);
  }
  return null;
}

const compiledByText = new Map<string, Compiled>();

function compiled(text: string): Compiled {
  const known = compiledByText.get(text);
  if (known !== undefined) return known;
  const options = { mode: "5-or-6-parts" as const };
  const { hour } = new CronPattern(text, undefined, options);
  const cron = new Cron(text, { ...options, utcOffset: 0, paused: true });
  const made = {
    cron,
    isEveryHour: hour.every((isOn) => isOn !== 0),
    isEverDue: nextWall(cron, 0) !== null,
  };
  if (compiledByText.size >= COMPILED_MAX)
    compiledByText.delete(compiledByText.keys().next().value as string);
  compiledByText.set(text, made);
  return made;
}
