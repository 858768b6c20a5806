// What a schedule does at a moment, by table: nothing is started or stored here.
import { describe, expect, test } from "vitest";
import { reject } from "../std/rejection.ts";
import { type Decision, decide, type Fire, type Moment, refused } from "./decide.ts";
import { newState, type Schedule, type ScheduleState } from "./schedule.ts";

/** Minutes after a full hour. */
const at = (minutes: number): number => Date.UTC(2026, 5, 1, 12) + minutes * 60_000;

function schedule(
  parts: Partial<Omit<Schedule, "state">> & { state?: Partial<ScheduleState> } = {},
): Schedule {
  return {
    id: "s",
    workflow: "w",
    input: null,
    cron: "*/10 * * * *",
    timeZone: "UTC",
    misfire: "fireOnce",
    overlap: "allow",
    project: "default",
    tags: {},
    createdAt: at(0),
    updatedAt: at(0),
    ...parts,
    state: { ...newState(at(1)), ...parts.state },
  };
}

const moment = (now: number, parts: Partial<Moment> = {}): Moment => ({
  now,
  openedAt: at(0),
  firedAt: null,
  isLastOpen: false,
  ...parts,
});

/** A decision in a few words, times as minutes. */
function brief(decision: Decision): string {
  const minute = (time: number | null): string => (time === null ? "never" : String((time - at(0)) / 60_000));
  switch (decision.kind) {
    case "fire":
      return `fire ${minute(decision.due)}`;
    case "note":
      return `note after ${minute(decision.state.after)}`;
    case "rest":
      return `rest until ${minute(decision.until)}${decision.untilEnd ? " or the end" : ""}`;
  }
}

describe("a decision", () => {
  const open = { isLastOpen: true };
  const reopened = { openedAt: at(35) };
  test.each<[string, Schedule, Moment, string]>([
    ["rests until the next due time", schedule(), moment(at(9.999)), "rest until 10"],
    ["fires when it has come", schedule(), moment(at(10)), "fire 10"],
    [
      "rests for ever while paused",
      schedule({ state: { paused: true } }),
      moment(at(10)),
      "rest until never",
    ],
    [
      "goes on with a start that had begun",
      schedule({ state: { starting: at(7) } }),
      moment(at(8)),
      "fire 7",
    ],
    ["fires each that is only just late", schedule({ cron: "* * * * *" }), moment(at(2.4)), "fire 2"],
    ["fires the newest of those missed", schedule(), moment(at(36), reopened), "fire 30"],
    ["fires the newest of those noticed too late", schedule(), moment(at(36)), "fire 30"],
    ["skips those missed", schedule({ misfire: "skip" }), moment(at(36), reopened), "note after 30"],
    [
      "notes those missed before the first fires",
      schedule({ misfire: "all" }),
      moment(at(36)),
      "note after 1",
    ],
    ["passes while the last is open", schedule({ overlap: "skip" }), moment(at(10), open), "note after 10"],
    ["queues while the last is open", schedule({ overlap: "queue" }), moment(at(10), open), "note after 10"],
    [
      "waits for the end, and for the next that will pass",
      schedule({ overlap: "queue", state: { after: at(10), queued: at(10) } }),
      moment(at(12), open),
      "rest until 20 or the end",
    ],
    [
      "lets those pass that come while one waits",
      schedule({ overlap: "queue", state: { after: at(10), queued: at(10) } }),
      moment(at(31), open),
      "note after 30",
    ],
    [
      "fires what waits once the last has ended",
      schedule({ overlap: "queue", state: { after: at(10), queued: at(10) } }),
      moment(at(31)),
      "fire 10",
    ],
  ])("%s", (_, subject, when, expected) => {
    expect(brief(decide(subject, when))).toBe(expected);
  });

  test("is the same for the same schedule and moment", () => {
    const subject = schedule({ misfire: "all", overlap: "queue" });
    expect(decide(subject, moment(at(36)))).toEqual(decide(subject, moment(at(36))));
  });
});

describe("catching up with all", () => {
  const noted = (decide(schedule({ misfire: "all" }), moment(at(36))) as { state: ScheduleState }).state;
  const subject = schedule({ misfire: "all", state: noted });

  test("fires the oldest first", () => {
    const first = decide(subject, moment(at(36))) as Fire;
    expect(brief(first)).toBe("fire 10");
    expect(first.started.misfires).toMatchObject({
      first: at(10),
      last: at(30),
      missed: 3,
      fired: 1,
      left: 999,
    });
    const second = decide(schedule({ misfire: "all", state: first.started }), moment(at(37))) as Fire;
    expect(brief(second)).toBe("fire 20");
  });

  test("pauses between two", () => {
    const now = at(36);
    expect(decide(subject, moment(now, { firedAt: now - 40 }))).toEqual({
      kind: "rest",
      until: now + 60,
      untilEnd: false,
    });
    expect(brief(decide(subject, moment(now, { firedAt: now - 100 })))).toBe("fire 10");
  });

  test("drops the rest when so many have fired", () => {
    const misfires = { ...(noted.misfires as NonNullable<ScheduleState["misfires"]>), left: 0 };
    expect(decide(schedule({ misfire: "all", state: { ...noted, misfires } }), moment(at(36)))).toMatchObject(
      {
        kind: "note",
        state: { after: at(30), dropped: 3 },
      },
    );
  });
});

describe("a start that is refused", () => {
  const fire = decide(schedule(), moment(at(10))) as Fire;

  test("is over, with the reason kept", () => {
    const state = refused(fire, reject("invalid_input", "no"), at(11));
    expect(state).toMatchObject({
      after: at(10),
      starting: null,
      lastDue: null,
      lastExecution: null,
      lastError: { code: "invalid_input", due: at(10), at: at(11) },
    });
  });

  test("for a conflict has its execution all the same", () => {
    const state = refused(fire, reject("conflict", "another input"), at(11));
    expect(state).toMatchObject({ lastExecution: `s~${at(10)}`, lastError: { code: "conflict" } });
  });
});
