// The tasks of a handler as sets: against a plain model, through its snapshot, and small.
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { TaskTable } from "./task-table.ts";

// The same run every time; change the seed to look elsewhere.
fc.configureGlobal({ seed: 1 });

interface Model {
  settled: boolean;
  failed: boolean;
  ended: number;
  fails: number;
  crashes: number;
  until: number;
  taken: boolean;
}

const task = fc.oneof(fc.nat(40), fc.constantFrom(1_023, 1_024, 40_000));
const command = fc.oneof(
  fc.record({ do: fc.constant("settle" as const), task, status: fc.constantFrom("done", "failed") }),
  fc.record({
    do: fc.constant("end" as const),
    task,
    burns: fc.constantFrom("attempt", "crash", "nothing"),
    until: fc.nat(100),
  }),
  fc.record({ do: fc.constant("take" as const), now: fc.nat(100), max: fc.integer({ min: 1, max: 50 }) }),
  fc.record({ do: fc.constant("reopen" as const) }),
  fc.record({ do: fc.constant("snapshot" as const) }),
);

describe("a task table", () => {
  test("does what a plain model does", () => {
    fc.assert(
      fc.property(fc.array(command, { maxLength: 60 }), (commands) => {
        let table = new TaskTable();
        const model = new Map<number, Model>();
        const taken: [given: number[], expected: number[]][] = [];
        const at = (n: number): Model => {
          const known = model.get(n) ?? {
            settled: false,
            failed: false,
            ended: 0,
            fails: 0,
            crashes: 0,
            until: 0,
            taken: false,
          };
          model.set(n, known);
          return known;
        };
        for (const given of commands) {
          switch (given.do) {
            case "settle": {
              const row = at(given.task);
              const attempt = table.nextAttempt(given.task);
              table.settle(given.task, attempt, given.status);
              if (row.settled) break;
              Object.assign(row, { settled: true, failed: given.status !== "done", until: 0 });
              if (given.status !== "done" || attempt > 1) row.ended = attempt;
              else row.ended = table.ended(given.task);
              break;
            }
            case "end": {
              const row = at(given.task);
              if (row.settled) break;
              const attempt = table.nextAttempt(given.task);
              table.endAttempt(given.task, attempt, { burns: given.burns, until: given.until });
              row.ended = attempt;
              row.until = given.until;
              row.taken = false;
              if (given.burns === "attempt") row.fails++;
              if (given.burns === "crash") row.crashes++;
              break;
            }
            case "take": {
              const due = [...model]
                .filter(([, row]) => row.until > 0 && row.until <= given.now && !row.taken)
                .map(([n]) => n)
                .sort((a, b) => a - b)
                .slice(0, given.max);
              taken.push([table.takeDue(given.now, given.max), due]);
              for (const n of due) at(n).taken = true;
              break;
            }
            case "reopen":
              table.reopen(50_000);
              for (const row of model.values())
                Object.assign(row, {
                  settled: row.settled && !row.failed,
                  failed: false,
                  fails: 0,
                  crashes: 0,
                  until: 0,
                });
              break;
            case "snapshot":
              table = TaskTable.fromSnapshot(JSON.parse(JSON.stringify(table.toSnapshot())));
              for (const row of model.values()) row.taken = false;
          }
          for (const [due, expected] of taken.splice(0)) expect(due).toEqual(expected);
          const untils = [...model.values()]
            .filter(({ until, taken }) => until > 0 && !taken)
            .map(({ until }) => until);
          expect(table.nextDue()).toBeLessThanOrEqual(Math.min(...untils, Number.POSITIVE_INFINITY));
          expect(table.countRetrying(50)).toBe(untils.filter((until) => until > 50).length);
          for (const [n, row] of model) {
            const { settled, failed, ...numbers } = row;
            expect([table.settled.has(n), table.failed.has(n)]).toEqual([settled, failed]);
            // The table keeps no history of tasks that are done.
            if (settled && !failed) continue;
            const { ended, fails, crashes, until } = numbers;
            expect([table.ended(n), table.fails(n), table.crashes(n), table.until(n)]).toEqual([
              ended,
              fails,
              crashes,
              until,
            ]);
          }
          const settledCount = [...model.values()].filter((row) => row.settled).length;
          const failedCount = [...model.values()].filter((row) => row.failed).length;
          expect([table.settled.size, table.failed.size, table.done]).toEqual([
            settledCount,
            failedCount,
            settledCount - failedCount,
          ]);
        }
      }),
    );
  });

  test("of a million done tasks takes a few hundred kilobytes as text", () => {
    const table = new TaskTable();
    for (let i = 0; i < 1_000_000; i++) table.settle(i, 1, "done");
    expect(table.done).toBe(1_000_000);
    expect(JSON.stringify(table.toSnapshot()).length).toBeLessThan(200_000);
  });
});

test("a task may have more attempts than fit two bytes: those that sleep burn none", () => {
  const table = new TaskTable();
  const task = 9_999_999;
  for (const attempt of [1, 65_535, 65_536, 1_000_000])
    table.endAttempt(task, attempt, { burns: "nothing", until: 5 });
  expect(table.nextAttempt(task)).toBe(1_000_001);
  table.noteLost(task, 1_000_000);
  expect(table.isLost(task, 1_000_000)).toBe(true);
  expect(table.isLost(task, 1_000_000 % 65_536)).toBe(false);
  expect(table.isLost(task - 1, 1_000_000)).toBe(false);
  const read = TaskTable.fromSnapshot(table.toSnapshot());
  expect([read.nextAttempt(task), read.isLost(task, 1_000_000)]).toEqual([1_000_001, true]);
});
