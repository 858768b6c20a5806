import { describe, expect, test } from "vitest";
import { parseDuration, showDuration } from "./duration.ts";
import { isRejection } from "./rejection.ts";

describe("a duration", () => {
  test.each<[string | number, number]>([
    ["0ms", 0],
    ["500ms", 500],
    ["1s", 1_000],
    ["1.5s", 1_500],
    ["5m", 300_000],
    ["2h", 7_200_000],
    ["1d", 86_400_000],
    ["0.1ms", 0],
    [0, 0],
    [1_234, 1_234],
    ["36600d", 36_600 * 86_400_000],
  ])("%s is %i ms", (given, ms) => {
    expect(parseDuration(given, "timeout")).toBe(ms);
  });

  test.each([
    ["", "is not a duration"],
    ["5", "is not a duration"],
    ["5 s", "is not a duration"],
    ["s", "is not a duration"],
    ["-5s", "is not a duration"],
    ["1e3s", "is not a duration"],
    ["5S", "is not a duration"],
    ["5w", "is not a duration"],
    ["1h30m", "is not a duration"],
    ["\u0665s", "is not a duration"],
    [-1, "is not a whole, non-negative number"],
    [1.5, "is not a whole, non-negative number"],
    [Number.NaN, "is not a whole, non-negative number"],
    [Number.POSITIVE_INFINITY, "is not a whole, non-negative number"],
    ["36601d", "longer than 100 years"],
    [1e15, "longer than 100 years"],
    [null, "not a duration"],
    [{}, "not a duration"],
    [undefined, "is missing"],
  ])("%s is refused", (given, why) => {
    const refused = parseDuration(given, "phase.timeout");
    expect(isRejection(refused) && refused.message).toContain(why);
    expect(refused).toMatchObject({ code: "invalid_definition", path: "phase.timeout" });
  });

  test.each<[number, string]>([
    [0, "0 ms"],
    [-5, "0 ms"],
    [999, "999 ms"],
    [1_000, "1 s"],
    [1_550, "1.6 s"],
    [59_900, "59.9 s"],
    [60_000, "1 m"],
    [90_000, "1 m 30 s"],
    [3_600_000, "1 h"],
    [3_601_000, "1 h 1 s"],
    [86_400_000 + 3_600_000 * 2 + 60_000, "1 d 2 h"],
  ])("of %i ms is shown as %s", (ms, shown) => {
    expect(showDuration(ms)).toBe(shown);
  });
});
