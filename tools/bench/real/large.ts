/** Jobs of a million: tasks of which some are retried, and finished executions that are kept. */
import { readdirSync, statSync } from "node:fs";
import { join } from "node:path";
import { queryAt } from "../postgres/query-at.ts";
import type { Bench, Figures } from "../scenario.ts";
import { median } from "../statistics.ts";
import { tasksIn } from "./in-process.ts";
import { inProcess, type Job, type Opened } from "./job.ts";
import { rawRetriedSeconds } from "./raw-program.ts";
import { openRawStore } from "./raw-store.ts";
import { fan, flaky, ran, single, taskOf, waiting } from "./workflows.ts";

const BATCH = 1_000;
const STARTS = 20_000;
const PAGES = 50;
const POLL_MS = 20;

export const retried: Job = {
  name: "retried",
  about: "1,000,000 tasks, 10 % fail once and are retried",
  goals: [
    {
      figure: "secondsPerMillion",
      label: "s for a million",
      bound: "most",
      file: 4,
      postgres: 8,
      raw: { figure: "rawSecondsPerMillion" },
    },
    { figure: "peakRssMb", label: "peak memory in MB", bound: "most", file: 220 },
  ],
  parts: [runRawRetried, inProcess(runRetried)],
  // Memory is a goal of this job, and the flags of the image exchange memory for time.
  flags: [],
};

export const stored: Job = {
  name: "stored",
  about: "starts, lists and a restart with a million finished executions in the store",
  goals: [
    {
      figure: "startsOfEmpty",
      label: "starts/s, times those with none",
      bound: "least",
      file: 0.9,
      postgres: 0.9,
    },
    {
      figure: "listOfEmpty",
      label: "time of a page, times that with few",
      bound: "most",
      file: 1.3,
      postgres: 1.3,
    },
    {
      figure: "openMs",
      label: "ms from the start of a process to its first result",
      bound: "most",
      raw: { figure: "openEmptyMs", share: 1.3 },
    },
  ],
  parts: [inProcess(openedMs("openEmptyMs")), inProcess(runFilled), inProcess(openedMs("openMs"))],
  isLong: true,
};

async function runRawRetried(bench: Bench): Promise<Figures> {
  const tasks = bench.isShort ? 100_000 : 1_000_000;
  const raw = await openRawStore(bench);
  await rawRetriedSeconds(raw, tasks / 20);
  const seconds = await rawRetriedSeconds(raw, tasks);
  await raw.close();
  return { rawSecondsPerMillion: (seconds * 1_000_000) / tasks };
}

async function runRetried(bench: Bench, opened: Opened): Promise<Figures> {
  const tasks = bench.isShort ? 100_000 : 1_000_000;
  opened.rondo.serve(flaky);
  await tasksIn(opened, flaky, tasks / 20);
  const timer = setInterval(() => bench.progress(`${ran.count} of ${tasks} tasks`), 2_000);
  const seconds = await bench.section(() => tasksIn(opened, flaky, tasks));
  clearInterval(timer);
  const figures = opened.meter.figures(tasks);
  return { tasks, seconds, secondsPerMillion: (seconds * 1_000_000) / tasks, ...figures };
}

async function runFilled(bench: Bench, opened: Opened): Promise<Figures> {
  const total = bench.isShort ? 20_000 : 1_000_000;
  const { rondo } = opened;
  rondo.serve(single, waiting, fan);
  const emptyBytes = await bytesOf(bench);
  const before = await startsPerSecond(opened);
  const listWithFew = await listMs(opened);
  ran.count = 0;
  for (let n = 0; n < total; n += BATCH) {
    const batch = Array.from({ length: BATCH }, (_, i) => ({ input: taskOf(n + i) }));
    await rondo.startMany(single, batch);
    while (ran.count < n) await sleep(POLL_MS);
    if (n % 50_000 === 0) bench.progress(`${n} of ${total} executions`);
  }
  while (ran.count < total) await sleep(POLL_MS);
  await sleep(2_000);
  const bytes = (await bytesOf(bench)) - emptyBytes;
  const tasks = total / 5;
  bench.progress(`one execution of ${tasks} tasks`);
  await rondo.run(fan, { tasks });
  await sleep(2_000);
  const taskBytes = (await bytesOf(bench)) - emptyBytes - bytes;
  const after = await startsPerSecond(opened);
  const unvacuumed = bench.database === null ? {} : { listUnvacuumedMs: await listMs(opened) };
  // PostgreSQL does this by itself some minutes after such a load. Until then, a list reads the index entries of former statuses.
  if (bench.database !== null) await queryAt(bench.database, "VACUUM executions");
  const list = await listMs(opened);
  return {
    executions: total,
    bytesPerExecution: bytes / total,
    bytesPerTask: taskBytes / tasks,
    startsWithNone: before,
    startsWithAll: after,
    startsOfEmpty: after / before,
    listWithFewMs: listWithFew,
    listWithAllMs: list,
    listOfEmpty: list / listWithFew,
    ...unvacuumed,
  };
}

/** The milliseconds from the start of this process until an execution has ended, under this name. */
function openedMs(figure: string) {
  return async (_: Bench, { rondo }: Opened): Promise<Figures> => {
    rondo.serve(single);
    await rondo.run(single, taskOf(0));
    return { [figure]: performance.now() };
  };
}

async function startsPerSecond({ rondo, meter }: Opened): Promise<number> {
  meter.reset();
  for (let n = 0; n < STARTS; n += BATCH)
    await rondo.startMany(
      waiting,
      Array.from({ length: BATCH }, (_, i) => ({ input: taskOf(n + i) })),
    );
  return STARTS / meter.seconds;
}

/** The median milliseconds of a page of the list. */
async function listMs({ rondo }: Opened): Promise<number> {
  const times: number[] = [];
  for (let i = 0; i < PAGES; i++) {
    const from = performance.now();
    await rondo.list({ status: "running" });
    times.push(performance.now() - from);
  }
  return median(times);
}

async function bytesOf({ database, directory }: Bench): Promise<number> {
  if (database === null)
    return readdirSync(directory, { withFileTypes: true })
      .filter((entry) => entry.isFile())
      .reduce((sum, { name }) => sum + statSync(join(directory, name)).size, 0);
  const [row] = await queryAt(database, "SELECT pg_database_size(current_database())::bigint AS bytes");
  return Number(row?.["bytes"]);
}

function sleep(ms: number): Promise<void> {
  return new Promise((resolve) => {
    setTimeout(resolve, ms);
  });
}
