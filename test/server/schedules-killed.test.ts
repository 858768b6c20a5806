// Schedules at a real server that is killed: what was due while nothing ran fires by its policy, nothing fires twice.
import { expect, test } from "vitest";
import { folder, startServer } from "../fixtures/cli/cli-process-fixture.ts";

const EMPTY = { rondo: 1, name: "empty", phases: [{ name: "end", handlers: {}, final: true }] };

interface Execution {
  readonly id: string;
  readonly status: string;
  readonly createdAt: number;
}

async function ask<T>(url: string, path: string, body?: unknown): Promise<T> {
  const answer = await fetch(`${url}${path}`, {
    method: body === undefined ? "GET" : "POST",
    ...(body === undefined
      ? {}
      : { body: JSON.stringify(body), headers: { "content-type": "application/json" } }),
  });
  if (!answer.ok) throw new Error(`${path}: ${answer.status} ${await answer.text()}`);
  return (await answer.json()) as T;
}

/** Due times in seconds that have fired, oldest first; none is early. */
async function firedOf(url: string, schedule: string): Promise<number[]> {
  const { data } = await ask<{ data: Execution[] }>(url, "/v1/executions?limit=200");
  return data
    .flatMap(({ id, createdAt }) => {
      const [name, due] = id.split("~");
      if (name !== schedule) return [];
      expect(createdAt).toBeGreaterThanOrEqual(Number(due));
      return [Number(due) / 1_000];
    })
    .toReversed();
}

async function until(holds: () => Promise<boolean>): Promise<void> {
  while (!(await holds())) await new Promise((resolve) => setTimeout(resolve, 20));
}

test("kill -9 of the server: `all` fires each due time, `fireOnce` and `skip` leave some out, none fires twice", {
  timeout: 60_000,
}, async () => {
  const cwd = folder({});
  const first = await startServer({ cwd });
  await ask(first.url, "/v1/workflows", EMPTY);
  for (const misfire of ["all", "fireOnce", "skip"])
    await ask(first.url, "/v1/schedules", { id: misfire, workflow: "empty", cron: "* * * * * *", misfire });
  await until(async () => (await firedOf(first.url, "skip")).length >= 2);
  first.process.kill("SIGKILL");
  await first.process.ended;
  // Two due times, at least, with nothing there.
  const deadFrom = Math.ceil(Date.now() / 1_000);
  await until(async () => Date.now() / 1_000 > deadFrom + 2);
  const second = await startServer({ cwd });
  const restartedBy = Math.ceil(Date.now() / 1_000);
  const wanted = restartedBy + 2;
  for (const id of ["all", "fireOnce", "skip"])
    await until(async () => ((await firedOf(second.url, id)).at(-1) ?? 0) >= wanted);

  const all = await firedOf(second.url, "all");
  const [oldest = 0] = all;
  expect(all).toEqual(Array.from({ length: all.length }, (_, i) => oldest + i));

  const once = await firedOf(second.url, "fireOnce");
  const skip = await firedOf(second.url, "skip");
  for (const fired of [once, skip]) {
    expect(new Set(fired).size).toBe(fired.length);
    expect(fired).toContain(wanted);
    expect(fired).not.toContain(deadFrom);
  }
  const whileDead = (due: number): boolean => due >= deadFrom && due <= deadFrom + 2;
  expect(skip.filter(whileDead)).toEqual([]);
  expect(once.filter(whileDead).length).toBeLessThanOrEqual(1);
  second.process.kill("SIGTERM");
  expect(await second.process.ended).toMatchObject({ code: 0 });
});
