// Worker processes as figures count them, with the registrations that they make for scripts.
import { describe, expect, test } from "vitest";
import type { Holdings } from "../../engine/io.ts";
import { countWorkers, scalingOf } from "./worker-views.ts";

type Worker = Holdings["workers"][number];

const worker = (id: string, use: string, more: Partial<Worker> = {}): Worker => ({
  ...{ id, local: false, capacity: 1, held: 0, serves: [{ use }] },
  ...more,
});
const scripts = (id: string, held = 0) => worker(id, "~script", { capacity: 2, held });

function holdings(workers: readonly Worker[], ready: Readonly<Record<string, number>>) {
  return { workers, ready: Object.entries(ready).map(([use, tasks]) => ({ use, tasks })) };
}

describe.each([
  ["of this version", "w~1", "w~1-scripts"],
  ["of 0.2", "w~1", "w-scripts~2"],
  ["with an id of its own", "mine", "mine-scripts"],
])("a worker process %s", (_, code, lane) => {
  test("is one worker, and full when its code is full", () => {
    const all = holdings([worker(code, "fx.do", { held: 1 }), scripts(lane)], { "fx.do": 28 });
    expect(countWorkers(all)).toMatchObject({ workers: 1, capacity: 1, counted: [{ id: code }] });
    expect(scalingOf(all, null)).toEqual({
      ...{ tasks: 29, ready: 28, held: 1, workers: 1, capacity: 1, utilisation: 1, desired: 29 },
    });
  });

  test("counts its scripts while there are some to do, and is still one worker", () => {
    const all = holdings([worker(code, "fx.do", { held: 1 }), scripts(lane)], { "~script": 3 });
    expect(countWorkers(all)).toMatchObject({ workers: 1, capacity: 3 });
    expect(scalingOf(all, "~script")).toMatchObject({ workers: 1, capacity: 2, desired: 2 });
    const running = holdings([worker(code, "fx.do"), scripts(lane, 2)], {});
    expect(countWorkers(running)).toMatchObject({ workers: 1, capacity: 3 });
    expect(countWorkers(running).counted).toHaveLength(2);
  });
});

test("a fleet of processes with the same name is counted by its processes", () => {
  const all = holdings(
    [1, 2, 3].flatMap((i) => [
      worker(`w~${i}`, "fx.do", { capacity: 5, held: 5 }),
      scripts(`w~${i}-scripts`),
    ]),
    { "fx.do": 85 },
  );
  expect(scalingOf(all, null)).toMatchObject({ workers: 3, capacity: 15, utilisation: 1, desired: 20 });
});

test("a worker that does scripts only is a worker like any other", () => {
  const all = holdings([scripts("s~1"), worker("w~1", "fx.do")], {});
  expect(countWorkers(all)).toMatchObject({ workers: 2, capacity: 3 });
});

test("workers that also serve scripts are no lanes", () => {
  const both = { serves: [{ use: "fx.do" }, { use: "~script" }] };
  expect(countWorkers(holdings([worker("w~1", ""), worker("w~1-scripts", "", both)], {})).workers).toBe(2);
});
