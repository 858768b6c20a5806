// Figures of workflows: what commits of nodes tell is added up in the store, by hour and by day, and nothing is counted twice.
import { expect, test } from "vitest";
import { Figures } from "../../engine/views/figures.ts";
import type { Clock } from "../../std/clock.ts";
import { MemoryStore } from "../../store/memory/memory-store.ts";
import { StoreFault } from "../../store/store.ts";
import { quantileOf, sumFigures, WorkflowFigures } from "./workflow-figures.ts";

const HOUR = 3_600_000;
const NOON = 20_000 * 24 * HOUR + 12 * HOUR;
const place = { project: "default", workflow: "pay" };

function committed(
  figures: Figures,
  at: number,
  options: { readonly n: number; readonly status?: "done" | "failed" },
) {
  const { n, status = "done" } = options;
  for (let i = 0; i < n; i++)
    figures.note(
      {
        ...place,
        isStarted: true,
        settled: [{ phase: "charge", handler: "card", statuses: [status], ms: [100] }],
        end: { status, ms: 1_000 },
      },
      at,
    );
}

async function fixture() {
  const store = new MemoryStore();
  await store.open();
  const faults: Error[] = [];
  const nodes = [new Figures(), new Figures()];
  const clock = { now: () => NOON, after: () => () => undefined } as unknown as Clock;
  const services = nodes.map(
    (node) =>
      new WorkflowFigures({
        store,
        clock,
        isPeriodic: true,
        take: () => node.take(),
        onFault: (fault) => faults.push(fault),
      }),
  );
  const [first, second] = services as [WorkflowFigures, WorkflowFigures];
  return { store, faults, first, second, ofFirst: nodes[0] as Figures, ofSecond: nodes[1] as Figures };
}

test("the figures of several nodes are added up, by hour and by day", async () => {
  const { first, second, ofFirst, ofSecond } = await fixture();
  committed(ofFirst, NOON, { n: 3 });
  committed(ofSecond, NOON + 5, { n: 2, status: "failed" });
  committed(ofFirst, NOON + HOUR, { n: 1 });
  await Promise.all([first.store(), second.store()]);
  // A second round has nothing to add.
  await Promise.all([first.store(), second.store()]);
  const hours = await first.read(place, { unit: "hour", from: NOON, to: NOON + 2 * HOUR });
  expect(
    hours.map(({ at, figures: { started, runs } }) => [at - NOON, started, runs.done, runs.failed]),
  ).toEqual([
    [0, 5, 3, 2],
    [HOUR, 1, 1, 0],
  ]);
  const [day] = await first.ofDay(NOON);
  expect([day?.workflow, day?.figures.started, day?.figures.handlers["charge/card"]?.done]).toEqual([
    "pay",
    6,
    4,
  ]);
  expect(await first.read({ ...place, project: "other" }, { unit: "hour", from: NOON, to: NOON })).toEqual(
    [],
  );
});

test("figures that could not be stored are stored later, once", async () => {
  const { store, first, ofFirst, faults } = await fixture();
  const { swapDocument } = store;
  store.swapDocument = () =>
    Promise.reject(new StoreFault("full", { retryable: true, nothingWritten: true }));
  committed(ofFirst, NOON, { n: 2 });
  await first.store();
  expect(faults.map(({ message }) => message)).toEqual(["full"]);
  store.swapDocument = swapDocument;
  committed(ofFirst, NOON, { n: 1 });
  await first.close();
  const [hour] = await first.read(place, { unit: "hour", from: NOON, to: NOON });
  expect(hour?.figures.started).toBe(3);
});

test("a damaged document of figures begins again, and stops nothing", async () => {
  const { store, first, ofFirst, faults } = await fixture();
  committed(ofFirst, NOON, { n: 2 });
  await first.store();
  const [hour] = (await store.listDocuments("figures", { max: 9 })).filter(({ id }) => id.includes("hour"));
  await store.putDocument("figures", hour?.id ?? "", "not JSON");
  committed(ofFirst, NOON, { n: 1 });
  await first.store();
  expect(faults).toHaveLength(1);
  const [read] = await first.read(place, { unit: "hour", from: NOON, to: NOON });
  expect(read?.figures.started).toBe(1);
});

test("quantiles are those of the durations, to about a tenth, and those that failed do not count", () => {
  const figures = new Figures();
  for (let ms = 1; ms <= 1_000; ms++)
    figures.note({ ...place, isStarted: true, settled: [], end: { status: "done", ms } }, NOON);
  figures.note({ ...place, isStarted: true, settled: [], end: { status: "failed", ms: 1e9 } }, NOON);
  const [taken] = figures.take();
  const runs = { ...taken?.runs, ms: Object.fromEntries(taken?.runs.ms ?? []) };
  const near = (share: number): number => (quantileOf(runs as never, share) ?? 0) / (share * 1_000);
  for (const share of [0.5, 0.95, 0.99]) expect(Math.abs(near(share) - 1)).toBeLessThan(0.12);
  expect(quantileOf(sumFigures([]).runs, 0.5)).toBe(null);
  expect(figures.take()).toEqual([]);
});
