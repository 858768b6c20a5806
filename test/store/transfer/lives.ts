/** A store with executions in every state that can be moved, and the lives before and after the move. */
import { Fatal, type OpenOptions, openRondo, RetryAfter, workflow } from "rondo";
import { onTestFinished, vi } from "vitest";
import type { Clock } from "../../../src/std/clock.ts";
import { systemClock } from "../../../src/std/clock.ts";
import type { Store } from "../../../src/store/store.ts";
import type { HostedWorkflow } from "../../../src/worker/handler-code.ts";

/** Says `false` in the first life, `true` in the next. */
interface Life {
  readonly isSecond: boolean;
}

const TASKS = 2_500;

/** The workflows as one life serves them; `begun` is called when the task that never ends has begun. */
function workflows({ isSecond }: Life, begun: () => void) {
  const fan = workflow<{ tasks: number }>({ name: "fan" })
    .phase("work", {
      *enumerate({ input }) {
        for (let i = 0; i < input.tasks; i++) yield { i };
      },
      async process({ task, log }) {
        if (task.i % 500 === 0) log(`at ${task.i}`, "\u2028 \u0000 ü");
        return task.i;
      },
    })
    .returns(({ phases }) => phases.work.count);
  const nap = workflow({ name: "nap" })
    .sleep("rest", "1h")
    .phase("rise", { process: async () => "up" });
  const ask = workflow({ name: "ask" })
    .waitFor("answer", { timeout: "30d" })
    .returns(({ phases }) => phases.answer.value as string);
  const steps = workflow({ name: "steps" })
    .phase("work", {
      async process({ step, sleep }) {
        const first = await step("first", () => `drawn in life ${isSecond ? 2 : 1}`);
        await sleep("between", "1h");
        return first;
      },
    })
    .returns(async ({ phases }) => {
      for await (const result of phases.work.results()) return result;
      return "nothing";
    });
  const broken = workflow({ name: "broken" }).phase("work", {
    *enumerate() {
      yield* [1, 2, 3];
    },
    async process({ task }) {
      if (task !== 2) throw new Fatal(`no ${task}`);
      return task;
    },
    tolerate: 1,
  });
  const later = workflow({ name: "later" }).phase("work", {
    async process() {
      if (!isSecond) throw new RetryAfter("1h", "come again");
      return "came";
    },
  });
  const stuck = workflow({ name: "stuck" }).phase("work", {
    async process({ signal }) {
      if (isSecond) return "free";
      begun();
      return new Promise<string>((resolve) => signal.addEventListener("abort", () => resolve("stopped")));
    },
  });
  const parent = workflow({ name: "parent" })
    .child("ask", ask)
    .script("shout", { runs: [{ name: "one", expression: "() => 'done'" }] });
  return { fan, nap, ask, steps, broken, later, stuck, parent };
}

/** Options of every life here: what would end the process fails the test. */
function lifeOptions(store: string | Store, clock: Clock): { options: OpenOptions; stops: Error[] } {
  const stops: Error[] = [];
  const options: OpenOptions = {
    store,
    clock,
    unsafeNoJail: true,
    // So that there are snapshots.
    settings: { snapshotRows: 2 },
    onStop: (reason) => void stops.push(reason),
  };
  return { options, stops };
}

/** Fills a store: done, sleeping, waiting, suspended, failed, retrying, running, cancelled, paused; children, scripts. */
export async function firstLife(store: string | Store): Promise<void> {
  let tellBegun = (): void => {};
  const begun = new Promise<void>((resolve) => {
    tellBegun = resolve;
  });
  const flows = workflows({ isSecond: false }, () => tellBegun());
  const { options, stops } = lifeOptions(store, systemClock({ hold: true }));
  const rondo = await openRondo(options);
  rondo.serve(...(Object.values(flows) as HostedWorkflow[]));
  await (await rondo.start(flows.fan, { tasks: TASKS }, { id: "fan", tags: { a: "1" } })).result();
  await rondo.start(flows.nap, null, { id: "nap" });
  await rondo.start(flows.ask, null, { id: "ask" });
  await rondo.start(flows.steps, null, { id: "steps" });
  await rondo.start(flows.later, null, { id: "later" });
  const broken = await rondo.start(flows.broken, null, { id: "broken" });
  await broken.result().catch(() => null);
  const cancelled = await rondo.start(flows.ask, null, { id: "cancelled" });
  await cancelled.cancel();
  await cancelled.result().catch(() => null);
  const paused = await rondo.start(flows.nap, null, { id: "paused" });
  await paused.pause();
  const parent = await rondo.start(flows.parent, null, { id: "parent" });
  await rondo.start(flows.stuck, null, { id: "stuck" });
  await begun;
  for (const [id, kind] of [
    ["steps", "workflow.tasks.waiting"],
    ["later", "workflow.tasks.retrying"],
  ] as const)
    for await (const event of rondo.execution(id).events()) if (event.kind === kind) break;
  for await (const event of parent.events()) if (event.kind === "workflow.child.started") break;
  await rondo.close({ graceMs: 0 });
  if (stops[0] !== undefined) throw stops[0];
}

/** Goes on with a moved store, two hours later, until everything is over; answers how each ended. */
export async function secondLife(store: string | Store): Promise<Record<string, unknown>> {
  const flows = workflows({ isSecond: true }, () => {});
  const clock = systemClock({ hold: true });
  const { options, stops } = lifeOptions(store, { ...clock, now: () => clock.now() + 7_200_000 });
  const rondo = await openRondo(options);
  onTestFinished(() => rondo.close({ graceMs: 0 }));
  rondo.serve(...(Object.values(flows) as HostedWorkflow[]));
  const findChild = async (): Promise<string | null> => {
    for await (const event of rondo.execution("parent").events())
      if (event.kind === "workflow.child.started") return event["child"] as string;
    return null;
  };
  const child = await vi.waitUntil(findChild, { timeout: 60_000 });
  await rondo.execution("ask").signal("answer", "yes");
  await rondo.execution(child).signal("answer", "of a child");
  await rondo.execution("paused").resume();
  const ends: Record<string, unknown> = {};
  for (const id of [
    "fan",
    "nap",
    "ask",
    "steps",
    "later",
    "broken",
    "cancelled",
    "paused",
    "parent",
    "stuck",
  ]) {
    const execution = rondo.execution(id);
    const output = await execution.result().catch((thrown: Error) => thrown.name);
    ends[id] = [(await execution.status()).status, output];
  }
  if (stops[0] !== undefined) throw stops[0];
  return ends;
}

/** How each of them ends. */
export const ENDS = {
  fan: ["done", TASKS],
  nap: ["done", null],
  ask: ["done", "yes"],
  steps: ["done", "drawn in life 1"],
  later: ["done", null],
  broken: ["failed", "ExecutionFailed"],
  cancelled: ["cancelled", "ExecutionCancelled"],
  paused: ["done", null],
  parent: ["done", null],
  stuck: ["done", null],
};
