/**
 * A time zone. A *wall time* is a local time written as if it were UTC, in milliseconds. Most wall times have one instant; one
 * that the clocks skip has none, and one that they show twice has two.
 */
const DAY_MS = 86_400_000;
const OFFSET = /GMT(?:([+-])(\d\d):(\d\d)(?::(\d\d))?)?$/;

export class TimeZone {
  readonly #format: Intl.DateTimeFormat;

  private constructor(format: Intl.DateTimeFormat) {
    this.#format = format;
  }

  /** The zone of an IANA name; null if there is none. */
  static named(name: string): TimeZone | null {
    const known = zones.get(name);
    if (known !== undefined) return known;
    // Offsets such as "+02:00" are names for some runtimes only.
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
    // The cache holds about 600 names, and spellings that differ in case.
    if (zones.size < 2_000) zones.set(name, zone);
    return zone;
  }

  /** How far local time is ahead of UTC, in milliseconds. */
  offsetAt(instant: number): number {
    const [, sign, hours, minutes, seconds] = OFFSET.exec(this.#format.format(instant)) ?? [];
    if (sign === undefined) return 0;
    const ms = (Number(hours) * 3_600 + Number(minutes) * 60 + Number(seconds ?? 0)) * 1_000;
    return sign === "-" ? -ms : ms;
  }

  wallAt(instant: number): number {
    return instant + this.offsetAt(instant);
  }

  /** The instants at which the clocks show a wall time, in order: none, one or two. */
  instantsOf(wall: number): number[] {
    const before = this.offsetAt(wall - DAY_MS);
    const after = this.offsetAt(wall + DAY_MS);
    if (before === after) return [wall - before];
    return [wall - before, wall - after]
      .filter((instant) => this.wallAt(instant) === wall)
      .sort((a, b) => a - b);
  }

  /** The first instant at which the clocks show a wall time, or skip it. */
  firstInstantOf(wall: number): number {
    const [first] = this.instantsOf(wall);
    return first ?? this.changeIn(wall - this.offsetAt(wall + DAY_MS), wall - this.offsetAt(wall - DAY_MS));
  }

  /** The instant in (from, to] at which the offset changes. */
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
