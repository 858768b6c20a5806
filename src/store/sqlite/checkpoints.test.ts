import { expect, test } from "vitest";
import { Checkpoints } from "./checkpoints.ts";
import type { Connection } from "./driver.ts";

/** A database whose WAL is as long as it says. */
function checkpointsOver(answer: () => { log: number }) {
  const statement = { run: () => 0, all: () => [], get: answer as () => never };
  const connection: Connection = { exec() {}, prepare: () => statement, rollback() {}, close() {} };
  return new Checkpoints(connection);
}

/** Notes commits of 100 rows until a checkpoint is due; answers how many. */
function commitsUntilDue(checkpoints: Checkpoints): number {
  let commits = 0;
  while (!checkpoints.due) {
    checkpoints.note(100, 0);
    commits++;
  }
  return commits;
}

test("a checkpoint is due after some thousand pages, later once the estimate proves too high, within a bound", () => {
  let log = 2_000;
  const checkpoints = checkpointsOver(() => ({ log }));
  expect(commitsUntilDue(checkpoints)).toBe(39);
  checkpoints.run();
  expect(commitsUntilDue(checkpoints)).toBeGreaterThan(75);
  log = 1;
  checkpoints.run();
  expect(commitsUntilDue(checkpoints)).toBe(154);
});

test("a checkpoint that failed is due again later, not at once", () => {
  const checkpoints = checkpointsOver(() => {
    throw new Error("no room");
  });
  commitsUntilDue(checkpoints);
  expect(() => checkpoints.run()).toThrow("no room");
  expect(checkpoints.due).toBe(false);
  expect(commitsUntilDue(checkpoints)).toBeLessThan(25);
});
