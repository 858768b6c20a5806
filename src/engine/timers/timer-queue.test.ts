// The queue of the nearest timers, over a store of a hundred thousand timers.
import { describe, expect, test } from "vitest";
import { NodeFixture } from "../../../test/fixtures/engine/node-fixture.ts";
import { SeededRandom } from "../../std/random.ts";
import type { StoredTimer } from "../../store/store.ts";
import { DEFAULT_SETTINGS } from "../settings.ts";
import { TimerQueue, WAKE } from "./timer-queue.ts";

/** Rows sorted by their time, as a store would give them. */
class Rows {
  readonly #rows: StoredTimer[];
  #first = 0;

  constructor(rows: StoredTimer[]) {
    this.#rows = rows.toSorted((a, b) => a.due - b.due);
  }

  scan({ until, max }: { until: number; max: number }): StoredTimer[] {
    return this.#rows.slice(this.#first, this.#first + max).filter(({ due }) => due <= until);
  }

  /** Rows are cleared in the order of their times here, since they fire in it. */
  clear(): void {
    this.#first++;
  }

  get left(): number {
    return this.#rows.length - this.#first;
  }
}

describe("the timer queue", () => {
  test("a timer that is due again after its execution was forgotten fires again, whatever characters are in its name", () => {
    const timers = new TimerQueue(DEFAULT_SETTINGS);
    timers.wantedScan(0);
    for (const [execution, timer] of [
      ["e1", "p.1.h.0/w0"],
      ["orders/1", "p.1.h.0"],
      ["orders", "1/p.1.h.0"],
    ] as const) {
      timers.set(execution, timer, 5);
      expect(timers.popDue(10)).toMatchObject({ execution, timer });
      timers.forget((other) => other !== execution);
      timers.set(execution, timer, 5);
      expect(timers.popDue(10)).toBeNull();
      timers.forget((other) => other === execution);
      timers.set(execution, timer, 5);
      expect(timers.popDue(10)).toMatchObject({ execution, timer });
    }
  });

  test("timers whose ids and names join to the same text are kept apart", () => {
    const timers = new TimerQueue(DEFAULT_SETTINGS);
    timers.wantedScan(0);
    timers.set("a", "b/c", 5);
    timers.set("a/b", "c", 6);
    expect(timers.popDue(10)).toMatchObject({ execution: "a", timer: "b/c" });
    expect(timers.popDue(10)).toMatchObject({ execution: "a/b", timer: "c" });
  });

  test("fires 100,000 timers in their order, each once and never early, with a bounded number in memory", () => {
    const random = new SeededRandom(1);
    const rows = new Rows(
      Array.from({ length: 100_000 }, (_, i) => ({
        execution: `e${i}`,
        timer: "t",
        due: 1_000 + random.below(600_000),
      })),
    );
    const settings = { ...DEFAULT_SETTINGS, timersMax: 1_000 };
    const timers = new TimerQueue(settings);
    let now = 0;
    let fired = 0;
    let last = 0;
    let knownMax = 0;
    let lateMax = 0;
    let isInOrder = true;
    for (let turn = 0; turn < 1_000_000 && rows.left > 0; turn++) {
      const wanted = timers.wantedScan(now);
      if (wanted !== null) {
        const found = rows.scan(wanted);
        knownMax = Math.max(knownMax, found.length);
        timers.scanned(found, wanted.until, { max: wanted.max, now });
      }
      for (let due = timers.popDue(now); due !== null; due = timers.popDue(now)) {
        isInOrder &&= due.due >= last && due.due <= now;
        last = due.due;
        lateMax = Math.max(lateMax, now - due.due);
        fired++;
        rows.clear();
        timers.clear(due.execution, due.timer);
      }
      now = Math.max(now, timers.nextAt());
    }
    expect(fired).toBe(100_000);
    expect(knownMax).toBeLessThanOrEqual(1_000);
    expect(isInOrder).toBe(true);
    expect(lateMax).toBeLessThanOrEqual(100);
  });

  test("asks again when half of its horizon has passed, and not before", () => {
    const timers = new TimerQueue(DEFAULT_SETTINGS);
    expect(timers.wantedScan(0)).toEqual({ until: 60_000, max: 10_000 });
    expect(timers.wantedScan(0)).toBeNull();
    timers.scanned([], 60_000, { max: 10_000, now: 0 });
    expect(timers.nextAt()).toBe(30_000);
    expect(timers.wantedScan(29_999)).toBeNull();
    expect(timers.wantedScan(30_000)).toEqual({ until: 90_000, max: 10_000 });
  });

  test("keeps a timer that is committed while it is near, and forgets one that is cleared or set anew", () => {
    const timers = new TimerQueue(DEFAULT_SETTINGS);
    timers.wantedScan(0);
    timers.scanned([], 60_000, { max: 10_000, now: 0 });
    timers.set("e1", "a", 100);
    timers.set("e1", "b", 200);
    timers.set("e1", "far", 100_000);
    timers.set("e1", "b", 300);
    timers.clear("e1", "a");
    expect(timers.popDue(250)).toBeNull();
    expect(timers.popDue(300)).toMatchObject({ timer: "b", due: 300 });
    timers.set("e1", WAKE, 500_000);
    expect(timers.popDue(499_999)).toBeNull();
    expect(timers.popDue(500_000)).toMatchObject({ timer: WAKE });
  });

  test("gives a timer again at the next scan if its row was not cleared", () => {
    const timers = new TimerQueue(DEFAULT_SETTINGS);
    const row = { execution: "e1", timer: "t", due: 50 };
    timers.wantedScan(0);
    timers.scanned([row], 60_000, { max: 10_000, now: 0 });
    expect(timers.popDue(50)).toMatchObject(row);
    timers.clear("e1", "t");
    timers.wantedScan(30_000);
    timers.scanned([row], 90_000, { max: 10_000, now: 30_000 });
    expect(timers.popDue(30_000)).toMatchObject(row);
  });
});

test("a timer whose commit was made, though its answer was lost, fires in its time", () => {
  const fixture = new NodeFixture();
  fixture.holdsCommits = true;
  const started = fixture.start(fixture.plan([{ name: "rest", handlers: { rest: { sleep: 5_000 } } }]), "e1");
  fixture.settle();
  fixture.commitUnheard();
  fixture.settle();
  fixture.holdsCommits = false;
  fixture.settle();
  expect(fixture.reply(started)).toMatchObject({ kind: "applied" });
  fixture.sleep(5_000);
  expect(fixture.status("e1")).toBe("done");
});
