// The timers of another node: kept while they are near, reported when they are overdue, forgotten only for a reason.
import { describe, expect, test } from "vitest";
import { SeededRandom } from "../../std/random.ts";
import type { StoredTimer } from "../../store/store.ts";
import { DEFAULT_RING_SETTINGS, type RingSettings } from "./settings.ts";
import { TimerWatch } from "./watch.ts";

const timer = (execution: string, due: number): StoredTimer => ({ execution, timer: "t", due });

function watching(rows: readonly StoredTimer[] = [], settings: Partial<RingSettings> = {}): TimerWatch {
  const watch = new TimerWatch({ ...DEFAULT_RING_SETTINGS, ...settings });
  watch.watch([1, 2], 0);
  expect(watch.wantedScan(0)).toEqual({
    partitions: [1, 2],
    until: 60_000,
    max: settings.timersMax ?? 10_000,
  });
  watch.scanned(rows, 0);
  return watch;
}

describe("a watcher", () => {
  test("scans at first and every minute, and sleeps in between", () => {
    const watch = new TimerWatch(DEFAULT_RING_SETTINGS);
    expect([watch.wantedScan(0), watch.nextAt()]).toEqual([null, Number.POSITIVE_INFINITY]);
    watch.watch([1], 0);
    expect(watch.wantedScan(0)).not.toBeNull();
    expect(watch.wantedScan(0)).toBeNull();
    expect(watch.nextAt()).toBe(Number.POSITIVE_INFINITY);
    watch.scanned([], 5);
    expect(watch.nextAt()).toBe(60_000);
    watch.watch([], 10);
    expect(watch.nextAt()).toBe(Number.POSITIVE_INFINITY);
  });

  test("scans again soon after a change, and after a scan that failed, but not in a row", () => {
    const watch = watching();
    watch.watch([3], 1_000);
    expect(watch.wantedScan(4_999)).toBeNull();
    expect(watch.wantedScan(5_000)).toMatchObject({ partitions: [3] });
    watch.scanned(null, 5_001);
    expect(watch.nextAt()).toBe(10_000);
    expect(watch.wantedScan(10_000)).not.toBeNull();
    // A change while the scan runs makes its answer old.
    watch.watch([4], 10_001);
    watch.scanned([], 10_002);
    expect(watch.nextAt()).toBe(15_000);
    expect(watch.wantedScan(15_000)).toMatchObject({ partitions: [4] });
  });

  test("tells the owner after the grace, never early, oldest first, and again until it is said to have ended", () => {
    const watch = watching([timer("e1", 1_000), timer("e2", 2_000)]);
    expect(watch.nextAt()).toBe(3_000);
    expect(watch.takeDue(2_999)).toEqual([]);
    expect(watch.takeDue(5_000)).toEqual([timer("e1", 1_000), timer("e2", 2_000)]);
    expect(watch.takeDue(9_999)).toEqual([]);
    watch.ended(timer("e2", 2_000));
    expect(watch.takeDue(10_000)).toEqual([timer("e1", 1_000)]);
    expect(watch.takeDue(19_999)).toEqual([]);
    expect(watch.takeDue(20_000)).toEqual([timer("e1", 1_000)]);
    expect(watch.lateness).toEqual({ count: 2, lastMs: 3_000, maxMs: 4_000 });
  });

  test("forgets a timer whose row is gone, keeps one whose row is there, and does not begin anew with it", () => {
    const watch = watching([timer("e1", 1_000), timer("e2", 1_000)]);
    expect(watch.takeDue(3_000)).toHaveLength(2);
    watch.rescan(5_000);
    expect(watch.wantedScan(5_000)).not.toBeNull();
    watch.scanned([timer("e2", 1_000)], 5_001);
    expect(watch.size).toBe(1);
    expect(watch.takeDue(7_999)).toEqual([]);
    expect(watch.takeDue(8_000)).toEqual([timer("e2", 1_000)]);
    expect(watch.lateness.count).toBe(2);
  });

  test("believes what is said while a scan runs more than what the scan finds", () => {
    const watch = watching([timer("e1", 1_000), timer("e2", 1_000)]);
    watch.rescan(5_000);
    watch.wantedScan(5_000);
    watch.ended(timer("e1", 1_000));
    watch.set(timer("e2", 20_000));
    watch.set(timer("e3", 6_000));
    watch.scanned([timer("e1", 1_000), timer("e2", 1_000)], 5_010);
    expect(watch.takeDue(10_000)).toEqual([timer("e3", 6_000)]);
    expect(watch.takeDue(22_000).map(({ execution }) => execution)).toContain("e2");
  });

  test("keeps a timer that is near and leaves a far one to the next scan; one that is set anew counts anew", () => {
    const watch = watching();
    watch.set(timer("near", 60_000));
    watch.set(timer("far", 60_001));
    expect(watch.size).toBe(1);
    watch.set(timer("near", 30_000));
    expect(watch.takeDue(32_000)).toEqual([timer("near", 30_000)]);
    watch.set(timer("near", 90_000));
    expect(watch.size).toBe(0);
  });

  test("has a bounded number of timers, and loses none of a store of many more, all overdue", () => {
    const random = new SeededRandom(1);
    const rows = new Map(
      Array.from({ length: 5_000 }, (_, i) => [`e${i}`, timer(`e${i}`, random.below(1_000))]),
    );
    const soonest = (max: number) => [...rows.values()].toSorted((a, b) => a.due - b.due).slice(0, max);
    const watch = watching(soonest(500), { timersMax: 500 });
    let now = 5_000;
    let sizeMax = 0;
    let batchMax = 0;
    for (let turn = 0; turn < 10_000 && rows.size > 0; turn++) {
      const scan = watch.wantedScan(now);
      if (scan !== null) watch.scanned(soonest(scan.max), now);
      watch.set(timer(`e${random.below(5_000)}`, 500));
      const due = watch.takeDue(now);
      for (const { execution, timer: name } of due) {
        rows.delete(execution);
        watch.ended({ execution, timer: name });
      }
      batchMax = Math.max(batchMax, due.length);
      sizeMax = Math.max(sizeMax, watch.size);
      now = Math.max(now + 1, Math.min(watch.nextAt(), now + 1_000));
    }
    expect(rows.size).toBe(0);
    expect(sizeMax).toBeLessThanOrEqual(500);
    expect(batchMax).toBeLessThanOrEqual(100);
  });
});
