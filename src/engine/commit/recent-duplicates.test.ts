import { expect, test } from "vitest";
import type { Report } from "../../protocol/work.ts";
import { RecentDuplicates } from "./recent-duplicates.ts";

const started = (execution: string): Report => ({
  kind: "started",
  execution,
  phase: "a",
  visit: 1,
  handler: "a",
  round: 1,
  epoch: 1,
  attempts: [{ task: 0, attempt: 1, claim: 1 }],
});

test("of more executions than are kept, those that were spoken to last are known", () => {
  const words = new RecentDuplicates();
  const say = (execution: string, at: number) =>
    words.note({ report: started(execution), worker: "w" }, ["stale"], at);
  for (let i = 0; i < 500; i++) say(`e${i}`, i);
  say("e0", 500);
  say("e500", 501);
  expect(words.of("e1")).toEqual([]);
  expect(words.of("e0").map(({ at }) => at)).toEqual([0, 500]);
  expect(words.of("e500")).toHaveLength(1);
});
