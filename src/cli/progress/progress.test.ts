import { expect, test } from "vitest";
import type { ExecutionView, PublicEvent } from "../../index.ts";
import { Painter } from "../style.ts";
import { Rate } from "./follow.ts";
import { phaseLine, phaseNews, showCount } from "./phase-line.ts";
import { type PhaseProgress, Progress } from "./progress.ts";

const events = (list: readonly Record<string, unknown>[]): PublicEvent[] =>
  list.map((event, i) => ({ seq: i + 1, at: i * 100, v: 1, execution: "x", kind: "", ...event }));

const WORK = { phase: "work", visit: 1, handler: "work" };
const story = events([
  { kind: "workflow.created" },
  { kind: "workflow.phase.started", phase: "work", visit: 1 },
  { kind: "workflow.handler.started", ...WORK },
  { kind: "workflow.tasks.enumerated", ...WORK, from: 0, count: 1_000 },
  { kind: "workflow.tasks.settled", ...WORK, count: 64, done: 60, failed: 4 },
  { kind: "workflow.tasks.retrying", ...WORK, count: 7 },
  { kind: "workflow.tasks.enumerated", ...WORK, from: 1_000, count: 500 },
  { kind: "workflow.handler.enumerated", ...WORK, total: 1_500 },
  { kind: "workflow.tasks.lost", ...WORK, count: 2 },
  { kind: "workflow.tasks.settled", ...WORK, handler: "next", count: 1, done: 1 },
]);

function after(count: number): PhaseProgress {
  const progress = new Progress();
  for (const event of story.slice(0, count)) progress.apply(event);
  return progress.current as PhaseProgress;
}

const line = (phase: PhaseProgress, more: { perSecond?: number; now?: number } = {}): string =>
  new Painter(false).line(
    phaseLine(phase, { now: more.now ?? 0, perSecond: more.perSecond ?? 0, columns: 76, nameWidth: 6 }),
  );

test("events of a phase add up to its counts; a decision is no task", () => {
  expect(after(story.length)).toMatchObject({
    status: "running",
    total: 1_500,
    isSealed: true,
    done: 60,
    failed: 4,
    retried: 9,
    startedAt: 100,
  });
});

test("a line has bar, counts, mishaps, rate, and an ETA once the total is known", () => {
  expect(line(after(2))).toBe("▸ work    running");
  expect(line(after(5), { perSecond: 64 })).toBe("▸ work    ──────────────  64/1,000+  4 failed  64/s");
  expect(line(after(story.length), { perSecond: 64 })).toBe(
    "▸ work    ──────────────  64/1,500  4 failed  9 retried  64/s  ETA 22 s",
  );
});

test("a phase that ends is told with what came of it", () => {
  const progress = new Progress();
  const ending = events([
    { kind: "workflow.phase.started", phase: "work", visit: 2 },
    { kind: "workflow.tasks.enumerated", ...WORK, visit: 2, count: 10 },
    { kind: "workflow.tasks.settled", ...WORK, visit: 2, done: 6, failed: 1 },
    { kind: "workflow.handler.finished", ...WORK, visit: 2, done: 6, failed: 1, cancelled: 3 },
    { kind: "workflow.phase.finished", phase: "work", visit: 2, status: "failed" },
  ]);
  const [begun, ended] = ending.flatMap((event) => {
    const news = progress.apply(event);
    return news === null ? [] : [phaseNews(news)];
  });
  expect(begun).toBe("work (visit 2): started");
  expect(ended).toBe("work (visit 2): failed, 10 tasks, 1 failed, 3 cancelled, 400 ms");
  expect(progress.current).toBeNull();
});

test("a phase is called by its label, whether it begins now or has begun before", () => {
  const labels = new Map([["step-0", "0 EMBED_REPO"]]);
  const [start, end] = events([
    { kind: "workflow.phase.started", phase: "step-0", visit: 1 },
    { kind: "workflow.phase.finished", phase: "step-0", visit: 1, status: "done" },
  ]) as [PublicEvent, PublicEvent];
  const progress = new Progress(labels);
  expect(phaseNews(progress.apply(start) as PhaseProgress)).toBe("0 EMBED_REPO: started");
  const running = { name: "step-0", visit: 1, status: "running", handlers: [] };
  const before = Progress.of({ createdAt: 5, phases: [running] } as unknown as ExecutionView, labels);
  expect(phaseNews(before.apply(end) as PhaseProgress)).toBe("0 EMBED_REPO: done");
  expect(before.phases).toHaveLength(1);
});

test("a wait shows how long it lasts at most", () => {
  const progress = new Progress();
  const at = { phase: "nap", visit: 1 };
  for (const event of events([
    { kind: "workflow.phase.started", ...at },
    { kind: "workflow.timer.set", timer: "nap.1.nap", purpose: "sleep", due: 65_000 },
  ]))
    progress.apply(event);
  expect(line(progress.current as PhaseProgress, { now: 100 })).toBe("▸ nap     sleeps for another 1 m 5 s");
});

test("a view tells how far an execution is; what began before has no duration", () => {
  const handler = { name: "a", sealed: true, pending: 3, running: 0, retrying: 0, waiting: 0, cancelled: 0 };
  const view = {
    createdAt: 5,
    phases: [
      { name: "first", visit: 1, status: "done", handlers: [{ ...handler, total: 2, done: 2, failed: 0 }] },
      { name: "work", visit: 1, status: "running", handlers: [{ ...handler, total: 9, done: 5, failed: 1 }] },
      { name: "later", visit: 0, status: "pending", handlers: [] },
    ],
  } as unknown as ExecutionView;
  const progress = Progress.of(view);
  expect(progress.phases.map(({ name }) => name)).toEqual(["first", "work"]);
  expect(progress.current).toMatchObject({ name: "work", total: 9, done: 5, failed: 1, startedAt: null });
  const [end] = events([{ kind: "workflow.phase.finished", phase: "work", visit: 1, status: "done" }]);
  expect(phaseNews(progress.apply(end as PublicEvent) as PhaseProgress)).toBe(
    "work: done, 6 tasks, 1 failed",
  );
});

test("a rate looks at the last seconds only", () => {
  const rate = new Rate();
  expect(rate.perSecond()).toBe(0);
  for (let at = 0; at <= 2_000; at += 100) rate.note(at, at);
  expect(rate.perSecond()).toBe(1_000);
  for (let at = 2_100; at <= 10_000; at += 100) rate.note(2_000, at);
  expect(rate.perSecond()).toBe(0);
});

test("counts have separators", () => {
  expect([0, 999, 1_000, 1_234_567].map(showCount)).toEqual(["0", "999", "1,000", "1,234,567"]);
});
