// Due times where clocks change: by table, and against a model that looks at every minute around the change.
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { isRejection, unwrap } from "../std/rejection.ts";
import { CronTimes } from "./cron-times.ts";
import { checkSchedule } from "./schedule.ts";
import { TimeZone } from "./time-zone.ts";

const MINUTE = 60_000;

function timesOf(cron: string, timeZone: string): CronTimes {
  return unwrap(CronTimes.parse(cron, timeZone));
}

/** Due times after a moment, in UTC, to the minute. */
function dueAfter(cron: string, timeZone: string, from: string, count: number): string[] {
  const times = timesOf(cron, timeZone);
  const found: string[] = [];
  let due: number | null = Date.parse(from);
  while (found.length < count) {
    due = times.next(due);
    if (due === null) break;
    found.push(new Date(due).toISOString().slice(0, 16));
  }
  return found;
}

describe("a local time that does not exist is due at the instant of the jump", () => {
  test.each([
    // 02:00 -> 03:00 on 8 March 2026.
    ["30 2 * * *", "America/New_York", "2026-03-07T12:00Z", ["2026-03-08T07:00", "2026-03-09T06:30"]],
    // Two that do not exist are one instant.
    ["*/30 2 * * *", "America/New_York", "2026-03-07T12:00Z", ["2026-03-08T07:00", "2026-03-09T06:00"]],
    [
      "30 2,3 * * *",
      "America/New_York",
      "2026-03-07T12:00Z",
      ["2026-03-08T07:00", "2026-03-08T07:30", "2026-03-09T06:30"],
    ],
    ["30 2 * * *", "Europe/Berlin", "2026-03-28T12:00Z", ["2026-03-29T01:00", "2026-03-30T00:30"]],
    // 02:00 -> 02:30 on 4 October 2026.
    ["15 2 * * *", "Australia/Lord_Howe", "2026-10-03T00:00Z", ["2026-10-03T15:30", "2026-10-04T15:15"]],
    // Midnight -> 01:00 on 24 April 2026.
    ["0 0 * * *", "Africa/Cairo", "2026-04-23T00:00Z", ["2026-04-23T22:00", "2026-04-24T21:00"]],
    // A whole day, 30 December 2011.
    ["0 12 * * *", "Pacific/Apia", "2011-12-29T12:00Z", ["2011-12-29T22:00", "2011-12-30T10:00"]],
  ])("%s in %s after %s", (cron, zone, from, expected) => {
    expect(dueAfter(cron, zone, from, expected.length)).toEqual(expected);
  });
});

describe("a local time that exists twice is due once", () => {
  test.each([
    // 02:00 -> 01:00 on 1 November 2026.
    ["30 1 * * *", "America/New_York", "2026-10-31T12:00Z", ["2026-11-01T05:30", "2026-11-02T06:30"]],
    [
      "*/30 1 * * *",
      "America/New_York",
      "2026-10-31T12:00Z",
      ["2026-11-01T05:00", "2026-11-01T05:30", "2026-11-02T06:00"],
    ],
    [
      "30 1,2 * * *",
      "America/New_York",
      "2026-10-31T12:00Z",
      ["2026-11-01T05:30", "2026-11-01T07:30", "2026-11-02T06:30"],
    ],
    ["30 2 * * *", "Europe/Berlin", "2026-10-24T12:00Z", ["2026-10-25T00:30", "2026-10-26T01:30"]],
    // Asked while it is shown for the second time.
    ["30 2 * * *", "Europe/Berlin", "2026-10-25T01:10Z", ["2026-10-26T01:30"]],
    // 02:00 -> 01:30 on 5 April 2026.
    ["45 1 * * *", "Australia/Lord_Howe", "2026-04-04T00:00Z", ["2026-04-04T14:45", "2026-04-05T15:15"]],
  ])("%s in %s after %s", (cron, zone, from, expected) => {
    expect(dueAfter(cron, zone, from, expected.length)).toEqual(expected);
  });
});

describe("what is due in every hour goes on through the change", () => {
  test.each([
    [
      "30 * * * *",
      "America/New_York",
      "2026-11-01T05:00Z",
      ["2026-11-01T05:30", "2026-11-01T06:30", "2026-11-01T07:30"],
    ],
    ["30 * * * *", "America/New_York", "2026-03-08T06:00Z", ["2026-03-08T06:30", "2026-03-08T07:30"]],
    [
      "*/20 * * * *",
      "Australia/Lord_Howe",
      "2026-04-04T14:30Z",
      ["2026-04-04T14:40", "2026-04-04T15:10", "2026-04-04T15:30", "2026-04-04T15:50"],
    ],
    [
      "*/15 0-23 * * *",
      "Europe/Berlin",
      "2026-10-25T00:40Z",
      ["2026-10-25T00:45", "2026-10-25T01:00", "2026-10-25T01:15"],
    ],
  ])("%s in %s after %s", (cron, zone, from, expected) => {
    expect(dueAfter(cron, zone, from, expected.length)).toEqual(expected);
  });
});

const CHANGES: readonly (readonly [zone: string, change: string])[] = [
  ["America/New_York", "2026-03-08T07:00Z"],
  ["America/New_York", "2026-11-01T06:00Z"],
  ["Europe/Berlin", "2026-03-29T01:00Z"],
  ["Europe/Berlin", "2026-10-25T01:00Z"],
  ["Australia/Lord_Howe", "2026-10-03T15:30Z"],
  ["Australia/Lord_Howe", "2026-04-04T15:00Z"],
  ["Africa/Cairo", "2026-04-23T22:00Z"],
  ["Africa/Cairo", "2026-10-29T21:00Z"],
  ["Antarctica/Troll", "2026-03-29T01:00Z"],
  ["Antarctica/Troll", "2026-10-25T01:00Z"],
  ["Asia/Kathmandu", "2026-05-01T00:00Z"],
];

const someOf = (max: number): fc.Arbitrary<number[]> =>
  fc.uniqueArray(fc.integer({ min: 0, max }), { minLength: 1, maxLength: 4 });

/** Every minute around a change: the local time of each by the runtime's own calendar. */
function dueByLooking(
  zone: string,
  [from, to]: readonly [number, number],
  fits: (minute: number, hour: number) => boolean,
  isEveryHour: boolean,
): number[] {
  const format = new Intl.DateTimeFormat("en-GB", {
    timeZone: zone,
    dateStyle: "short",
    timeStyle: "medium",
  });
  const due = new Set<number>();
  let shown = Number.NEGATIVE_INFINITY;
  for (let instant = from - 1_440 * MINUTE; instant <= to; instant += MINUTE) {
    const [, day, month, year, hour, minute] =
      /(\d+)\/(\d+)\/(\d+), (\d+):(\d+)/.exec(format.format(instant)) ?? [];
    const wall = Date.UTC(Number(year), Number(month) - 1, Number(day), Number(hour), Number(minute));
    if (isEveryHour && fits(Number(minute), Number(hour))) due.add(instant);
    // The minutes that are shown, or jumped over, for the first time now.
    for (let w = Math.max(shown + MINUTE, wall - 1_440 * MINUTE); !isEveryHour && w <= wall; w += MINUTE) {
      const at = new Date(w);
      if (fits(at.getUTCMinutes(), at.getUTCHours())) due.add(instant);
    }
    shown = Math.max(shown, wall);
  }
  return [...due].filter((instant) => instant > from);
}

test("due times around a change are those that looking at every minute finds, and `latest` finds the last", () => {
  fc.assert(
    fc.property(
      fc.constantFrom(...CHANGES),
      someOf(59),
      fc.option(someOf(23), { freq: 4 }),
      fc.integer({ min: 1, max: 1_000 }),
      ([zone, change], minutes, hours, before) => {
        const from = Date.parse(change) - before * MINUTE;
        const to = Date.parse(change) + 600 * MINUTE;
        const times = timesOf(`${minutes.join(",")} ${hours?.join(",") ?? "*"} * * *`, zone);
        const found: number[] = [];
        for (let due = times.next(from); due !== null && due <= to; due = times.next(due)) found.push(due);
        const fits = (minute: number, hour: number): boolean =>
          minutes.includes(minute) && (hours === null || hours.includes(hour));
        expect(found).toEqual(dueByLooking(zone, [from, to], fits, hours === null));
        expect(times.latest(from, to)).toBe(found.at(-1) ?? null);
        expect(times.count(from, to, 5)).toBe(Math.min(5, found.length));
      },
    ),
    { numRuns: 150 },
  );
});

test("seconds are the first of six fields", () => {
  expect(timesOf("15,45 0 12 * * *", "UTC").next(Date.UTC(2026, 0, 1, 12, 0, 15))).toBe(
    Date.UTC(2026, 0, 1, 12, 0, 45),
  );
});

test("the newest of a year of seconds is found without counting them", () => {
  const times = timesOf("* * * * * *", "UTC");
  const until = Date.UTC(2027, 0, 1) + 999;
  expect(times.latest(Date.UTC(2026, 0, 1), until)).toBe(Date.UTC(2027, 0, 1));
  expect(times.count(Date.UTC(2026, 0, 1), until, 1_000)).toBe(1_000);
});

describe("refused in words", () => {
  test.each([
    ["61 * * * *", "UTC", "cron", /minute: 61/],
    ["* * * *", "UTC", "cron", /five or six fields/],
    ["* * * * * * *", "UTC", "cron", /five or six fields/],
    ["@reboot", "UTC", "cron", /"@reboot" is not a known nickname/],
    ["2026-01-01T00:00:00", "UTC", "cron", /five or six fields/],
    ["0 0 30 2 *", "UTC", "cron", /never due/],
    ["5/10 * * * *", "UTC", "cron", /5\/10/],
    ["a b c d e", "UTC", "cron", /illegal/],
    [`${"1,".repeat(200)}1 * * * *`, "UTC", "cron", /longer than 200/],
    [7, "UTC", "cron", /must be a text/],
    ["* * * * *", "Europe/Atlantis", "timeZone", /"Europe\/Atlantis" is not a time zone/],
    ["* * * * *", "+02:00", "timeZone", /not a time zone/],
    ["* * * * *", 2, "timeZone", /a number is not a time zone/],
  ])("%s in %s", (cron, timeZone, path, message) => {
    const refused = CronTimes.parse(cron, timeZone);
    expect(isRejection(refused)).toBe(true);
    expect(refused).toMatchObject({ code: "invalid_input", path, message: expect.stringMatching(message) });
    expect((refused as { hint: string }).hint).not.toBe("");
  });
});

test("a zone with seconds in its offset is read to the second", () => {
  const monrovia = TimeZone.named("Africa/Monrovia") as TimeZone;
  expect(monrovia.offsetAt(Date.UTC(1971, 0, 1))).toBe(-(44 * 60 + 30) * 1_000);
});

describe("nicknames", () => {
  test.each([
    ["@hourly", "0 * * * *"],
    ["@daily", "0 0 * * *"],
    ["@midnight", "0 0 * * *"],
    ["@weekly", "0 0 * * 0"],
    ["@monthly", "0 0 1 * *"],
    [" @yearly ", "0 0 1 1 *"],
    ["@annually", "0 0 1 1 *"],
  ])("%s is %s, and is stored as that", (nickname, fields) => {
    const from = "2026-03-07T12:00Z";
    expect(dueAfter(nickname, "Europe/Berlin", from, 3)).toEqual(dueAfter(fields, "Europe/Berlin", from, 3));
    const stored = unwrap(checkSchedule({ id: "s", workflow: "w", cron: nickname }));
    expect(stored.cron).toBe(fields);
  });

  test.each(["@reboot", "@every", "@every 5m", "@toString", "@daily 5", "@"])("%s is refused", (text) => {
    const refused = CronTimes.parse(text, "UTC");
    expect(refused).toMatchObject({
      code: "invalid_input",
      path: "cron",
      hint: expect.stringContaining("five fields") as string,
    });
  });
});
