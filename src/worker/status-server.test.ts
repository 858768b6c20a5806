// A worker's own API: its health, its attempts, and the runs of an attempt.
import { expect, onTestFinished, test } from "vitest";
import { makeGrant } from "../../test/fixtures/workers/worker-fixture.ts";
import { reportPlace } from "./attempt-place.ts";
import { noteRun, type RunStatuses } from "./run-statuses.ts";
import { startStatusServer } from "./status-server.ts";

const AT = { ...reportPlace(makeGrant([])), task: 0, attempt: 1, claim: 0 };
const STATS = { durationMs: 1, memoryBytes: 2 };

test("2.44 a worker tells the status of a run of an attempt that it has", async () => {
  const attempt: { runs: RunStatuses | null } = { runs: null };
  noteRun(attempt, { kind: "run.started", ...AT, name: "one", index: 0 }, { now: () => 1 });
  noteRun(
    attempt,
    { kind: "run", ...AT, name: "one", index: 0, state: "1", oversized: false, stats: STATS },
    { now: () => 2 },
  );
  noteRun(attempt, { kind: "run.started", ...AT, name: "a/b", index: 1 }, { now: () => 3 });
  noteRun(attempt, { kind: "logs", ...AT, lines: [] }, { now: () => 4 });
  const server = await startStatusServer({
    host: "127.0.0.1",
    port: 0,
    health: () => ({ ok: true }),
    attempt: (id) => (id === "e.1" ? { attempt: id } : null),
    run: (id, run) => (id === "e.1" && attempt.runs?.has(run) ? { ...attempt.runs.get(run) } : null),
  });
  onTestFinished(() => server.close());
  const get = async (path: string): Promise<unknown[]> => {
    const answer = await fetch(`${server.url}${path}`);
    return [answer.status, await answer.json()];
  };
  expect(await get("/healthz")).toEqual([200, { ok: true }]);
  expect(await get("/attempts/e.1")).toEqual([200, { attempt: "e.1" }]);
  expect(await get("/attempts/e.1/runs/one")).toEqual([200, { status: "finished", since: 2 }]);
  expect(await get("/attempts/e.1/runs/a%2Fb?x=1")).toEqual([200, { status: "running", since: 3 }]);
  noteRun(
    attempt,
    { kind: "run.crashed", ...AT, name: "a/b", index: 1, message: "no", stats: null },
    { now: () => 5 },
  );
  expect(await get("/attempts/e.1/runs/a%2Fb")).toEqual([200, { status: "crashed", since: 5 }]);
  for (const path of ["/attempts/e.1/runs/two", "/attempts/e.2/runs/one", "/attempts/e.1/runs", "/%"])
    expect(await get(path)).toEqual([404, { code: "not_found" }]);
});
