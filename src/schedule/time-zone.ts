/**
 * A time zone. A *wall time* is a local time, encoded as if it were UTC, in milliseconds. Most wall times occur at one instant. A wall
 * time that the clocks skip occurs at none, and one that they show twice occurs at two.
 */
const DAY_MS = 86_400_000;
const OFFSET = /GMT(?:([+-])(\d\d):(\d\d)(?::(\d\d))?)?$/;

export class TimeZone {
  readonly #format: Intl.DateTimeFormat;

  private constructor(format: Intl.DateTimeFormat) {
    this.#format = format;
  }

  /** Returns the time zone with an IANA name; null if there is none. */
  static named(name: string): TimeZone | null {
    const known = zones.get(name);
    if (known !== undefined) return known;
    // Some runtimes accept offsets such as "+02:00" as names, others do not. So they are refused.
    if (!/^[A-Za-z][\w+/-]{0,59}$/.test(name)) return null;
    let format: Intl.DateTimeFormat;
    try {
      format = new Intl.DateTimeFormat("en-US", {
        timeZone: name,
        timeZoneName: "longOffset",
        year: "numeric",
      });
    } catch (thrown) {
      if (thrown instanceof RangeError) return null;
      throw thrown;
    }
    const zone = new TimeZone(format);
    // The cache is large enough for the about 600 names, with spellings that differ in case.
    if (zones.size < 2_000) zones.set(name, zone);
    return zone;
  }

  /** Returns how far local time is ahead of UTC at an instant, in milliseconds. */
  offsetAt(instant: number): number {
    const [, sign, hours, minutes, seconds] = OFFSET.exec(this.#format.format(instant)) ?? [];
    if (sign === undefined) return 0;
    const ms = (Number(hours) * 3_600 + Number(minutes) * 60 + Number(seconds ?? 0)) * 1_000;
    return sign === "-" ? -ms : ms;
  }

  wallAt(instant: number): number {
    return instant + this.offsetAt(instant);
  }

  /** Returns the instants at which the clocks show a wall time, in order: none, one or two. */
  instantsOf(wall: number): number[] {
    const before = this.offsetAt(wall - DAY_MS);
    const after = this.offsetAt(wall + DAY_MS);
    if (before === after) return [wall - before];
    return [wall - before, wall - after]
      .filter((instant) => this.wallAt(instant) === wall)
      .sort((a, b) => a - b);
  }

  /** Returns the first instant at which the clocks show a wall time. If they skip it, returns the instant of the change. */
  firstInstantOf(wall: number): number {
    const [first] = this.instantsOf(wall);
    return first ?? this.changeIn(wall - this.offsetAt(wall + DAY_MS), wall - this.offsetAt(wall - DAY_MS));
  }

  /** Returns the instant in (from, to] at which the offset changes. */
  changeIn(from: number, to: number): number {
    const offset = this.offsetAt(from);
    let [low, high] = [from, to];
    while (high - low > 1) {
      const middle = low + Math.floor((high - low) / 2);
      if (this.offsetAt(middle) === offset) low = middle;
      else high = middle;
    }
    return high;
  }
}

const zones = new Map<string, TimeZone>();
