// The kernel as a whole: random messages to random workflows keep what DESIGN 2 promises, and the journal is the state.
import { describe, expect, test } from "vitest";
import type { KernelRun } from "../../test/fixtures/kernel/kernel-run-fixture.ts";
import { RandomRun } from "../../test/fixtures/kernel/random-run-fixture.ts";
import type { Recorded } from "./event.ts";
import { Execution, type HandlerState } from "./execution.ts";
import { encodeEntries } from "./journal/journal-entry.ts";
import { replay, restore } from "./journal/replay.ts";
import { readSnapshot, writeSnapshot } from "./journal/snapshot.ts";
import { NEVER } from "./tasks/task-table.ts";
import { viewExecution } from "./view.ts";

const SEEDS = Array.from({ length: 12 }, (_, i) => i);
const RUNS_PER_SEED = 25;
const MESSAGES = 80;

describe.each(SEEDS)("seed %i", (seed) => {
  test("keeps every invariant, ends when everything is done for it, and replays to the same state", () => {
    for (let i = 0; i < RUNS_PER_SEED; i++)
      expect(["done", "failed", "cancelled"]).toContain(oneRun(seed * 1_000 + i));
  });
});

test("the same seed gives the same journal", () => {
  const journals = [1, 2].map(() => {
    const random = new RandomRun(4_711);
    for (let i = 0; i < MESSAGES; i++) random.next();
    return JSON.stringify(random.run.events);
  });
  expect(journals[0]).toBe(journals[1]);
});

test("the runs are worth it: they end in every way, with repairs, retries, losses and late words among them", () => {
  const wanted = [
    "finished done",
    "finished failed",
    "finished cancelled",
    "rounds",
    "visits",
    "tasks.late",
    "tasks.lost",
    "tasks.retrying",
    "tasks.started",
    "handler.lost",
    "handler.retrying",
    "signalled",
    "timer.fired",
    "timer.cleared",
    "resumed",
    "tasks.waiting",
    "task.step",
    "task.step signalled",
    "task.step timer",
    "task.run",
    "task.run.started",
    "task.run.crashed",
    "tasks.accepted",
    "child.started",
    "child.finished",
    "late done refused",
    "command.receipted",
    "postop.done",
    "postop.failed",
    "ending",
    "compensated",
    "clean-up again",
  ];
  const seen = new Set<string>();
  for (let seed = 0; seed < 600 && !wanted.every((what) => seen.has(what)); seed++) {
    const random = new RandomRun(seed);
    for (let i = 0; i < MESSAGES; i++) random.next();
    random.finish();
    for (const { event } of random.run.events)
      seen.add(event.kind === "finished" ? `finished ${event.status}` : event.kind);
    for (const { reason } of random.run.of("task.step")) seen.add(`task.step ${reason}`);
    for (const { statuses, accepted } of random.run.of("tasks.late"))
      if (statuses.some((status, i) => status === "done" && accepted[i] === false))
        seen.add("late done refused");
    if (random.run.execution.round > 1) seen.add("rounds");
    const cleaned = random.run
      .of("phase.finished")
      .filter(({ phase }) => random.run.plan.byName.get(phase)?.compensates !== null);
    if (cleaned.length > 0) seen.add("compensated");
    if (new Set(cleaned.map(({ phase, visit }) => `${phase}/${visit}`)).size < cleaned.length)
      seen.add("clean-up again");
    if (random.run.execution.visited.some(({ visit }) => visit > 1)) seen.add("visits");
  }
  expect([...seen]).toEqual(expect.arrayContaining(wanted));
});

/** Runs one seed; returns the status at the end. */
function oneRun(seed: number): string {
  const random = new RandomRun(seed);
  const { run } = random;
  const snapshots = new Map<number, string>();
  const at = `seed ${seed}`;
  for (let i = 0; i < MESSAGES; i++) {
    random.next();
    checkState(run, at);
    snapshots.set(run.execution.seq, writeSnapshot(run.execution));
  }
  checkJournal(run, at);
  checkReplay(run, snapshots, at);
  must(random.finish(), () => `${at} is stuck in ${run.phase} (${run.status})`);
  checkState(run, at);
  checkJournal(run, at);
  checkSent(run, at);
  return run.status;
}

/** Cheaper than `expect`, of which there would be millions. */
function must(holds: boolean, what: () => string): void {
  if (!holds) throw new Error(what());
}

/** What holds in every state: fan-in counts are the sizes of sets, nothing is counted that does not exist. */
function checkState({ execution, now }: KernelRun, at: string): void {
  for (const handler of execution.current?.handlers ?? []) {
    const { tasks, total, finished, plan } = handler;
    const where = (what: string) => () => `${at}: ${plan.name}: ${what}`;
    let settled = 0;
    let failed = 0;
    for (let n = 0; n < total + 5; n++) {
      if (tasks.settled.has(n)) settled++;
      if (tasks.failed.has(n)) failed++;
      must(!tasks.failed.has(n) || tasks.settled.has(n), where(`task ${n} failed and is not settled`));
      must(!tasks.settled.has(n) || n < Math.max(total, 1), where(`task ${n} of ${total} is settled`));
      must(
        !tasks.settled.has(n) || tasks.startOf(n) === undefined,
        where(`task ${n} is settled and started`),
      );
    }
    must(tasks.settled.size === settled, where("settled is not the size of its set"));
    must(tasks.failed.size === failed, where("failed is not the size of its set"));
    must(!finished || tasks.starts().length === 0, where("finished with starts"));
    for (const [n, { attempt }] of handler.notices)
      must(
        !tasks.settled.has(n) && attempt > tasks.ended(n),
        where(`a notice about task ${n}, which is over`),
      );
    must(!finished || handler.notices.size === 0, where("finished with notices"));
    checkProgress(execution, handler, where);
    checkCommands(execution, handler, where);
  }
  must(!execution.ended || execution.timers.size === 0, () => `${at}: ended with timers`);
  let kept = 0;
  for (const queue of execution.signals.values()) kept += queue.length;
  must(execution.signalCount === kept, () => `${at}: ${execution.signalCount} signals, ${kept} kept`);
  for (const phase of viewExecution(execution, now).phases)
    for (const { total, pending, running, retrying, waiting, done, failed, cancelled } of phase.handlers) {
      const parts = [pending, running, retrying, waiting, done, failed];
      const sum = parts.reduce((a, b) => a + b, phase.status === "running" ? 0 : cancelled);
      must(
        sum === total && parts.every((part) => part >= 0),
        () => `${at}: ${phase.name} shows ${parts.join("+")} of ${total}`,
      );
    }
}

/** Checks that the task of a command stays open only for pending post-operations. */
function checkCommands(
  execution: Execution,
  { plan, tasks, receipted }: HandlerState,
  where: (what: string) => () => string,
): void {
  const visit = execution.currentVisit();
  const owed = [...execution.postops.values()];
  for (const [task] of receipted) {
    must(
      !tasks.settled.has(task) || tasks.failed.has(task),
      where(`done task ${task} has a result that is kept`),
    );
    if (visit.status !== "running" || tasks.settled.has(task)) continue;
    const holds = owed.some((op) => op.awaited && op.handler === plan.name && op.task === task);
    must(holds, where(`task ${task} has a result, is open, and nothing is owed`));
    must(tasks.until(task) === NEVER, where(`task ${task} has a result and can be given out`));
  }
  must(
    visit.status === "running" || !owed.some(({ awaited }) => awaited),
    where("the visit is over and something that holds tasks is owed"),
  );
}

/** What holds for waits in tasks and for children. */
function checkProgress(
  execution: Execution,
  { plan, tasks, progress, children, openChildren }: HandlerState,
  where: (what: string) => () => string,
): void {
  const visit = execution.currentVisit();
  const prefix = `${visit.plan.name}.${visit.visit}.${plan.name}.`;
  for (const [timer, { purpose }] of execution.timers) {
    if (purpose !== "task" || !timer.startsWith(prefix)) continue;
    const [task = "", name] = timer.slice(prefix.length).split("/");
    const waits = progress.tasks.get(Number(task))?.waits ?? [];
    const isOpen = waits.some(
      (wait) => wait.signals.length > 0 && (name === undefined ? wait.alone === true : wait.name === name),
    );
    must(isOpen, where(`a timer for task ${task}, which does not wait`));
  }
  for (const [task, { waits, checkpoints }] of progress.tasks) {
    must(waits.length === 0 || !tasks.settled.has(task), where(`task ${task} is settled and waits`));
    must(!tasks.settled.has(task) || tasks.failed.has(task), where(`done task ${task} has checkpoints`));
    const names = checkpoints.map(({ kind, name }) => `${kind === "run"} ${name}`);
    must(new Set(names).size === names.length, where(`task ${task} has two checkpoints of one name`));
  }
  const isOpen = !execution.draining && !execution.ended && visit.status === "running";
  for (const [signal, kept] of execution.signals)
    for (const { data } of kept)
      must(
        !isOpen || progress.firstWaitingFor({ signal, data }, execution.now) === undefined,
        where(`"${signal}" is kept and waited for`),
      );
  const open = [...children].filter(([, child]) => child.isOpen);
  must(openChildren === open.length, where(`${openChildren} children are open, not ${open.length}`));
  must(
    open.every(([task]) => !tasks.settled.has(task)),
    where("a child is open and its task is settled"),
  );
  must(visit.status === "running" || open.length === 0, where("the visit is over and a child is open"));
}

/** Checks sent messages: each has an id of its own, and each child is started as often as events ask for it. */
function checkSent({ sent, events }: KernelRun, at: string): void {
  const ids = sent.map(({ id }) => id);
  must(new Set(ids).size === ids.length, () => `${at}: two letters with one id`);
  const starts = sent.filter(({ message }) => message.kind === "start").map(({ to }) => to);
  const retries = sent.filter(({ message }) => message.kind === "retry").map(({ to }) => to);
  const started: string[] = [];
  for (const { event } of events) if (event.kind === "child.started") started.push(event.child);
  must(starts.join() === started.join(), () => `${at}: children ${started.join()}, starts ${starts.join()}`);
  const again = started.filter((child, i) => started.indexOf(child) < i);
  must(retries.join() === again.join(), () => `${at}: again ${again.join()}, retries ${retries.join()}`);
}

/** What holds for every journal. */
function checkJournal(run: KernelRun, at: string): void {
  const events: readonly Recorded[] = run.events;
  const persists = new Set<string>();
  const once = new Set<string>();
  const done = new Set<string>();
  let round = 1;
  let isOver = false;
  let time = 0;
  const justOnce = (what: string) => {
    must(!once.has(what), () => `${at}: ${what} twice`);
    once.add(what);
  };
  events.forEach(({ seq, at: when, event }, i) => {
    must(seq === i + 1, () => `${at}: event ${i} has number ${seq}`);
    must(when >= time, () => `${at}: time goes back at ${seq}`);
    time = when;
    must(
      !isOver || ["tasks.late", "retried"].includes(event.kind) || event.kind.startsWith("postop."),
      () => `${at}: ${event.kind} at ${seq} after the end`,
    );
    switch (event.kind) {
      case "finished":
        isOver = true;
        must(event.round === round, () => `${at}: finished round ${event.round} in round ${round}`);
        return;
      case "retried":
        isOver = false;
        round = event.round;
        return;
      case "phase.finished":
        return justOnce(`${event.phase}/${event.visit} ends in round ${round}`);
      case "handler.finished":
        return justOnce(`${event.phase}/${event.visit}/${event.handler} finishes in round ${round}`);
      case "tasks.settled":
        event.tasks.forEach((task, n) => {
          const key = `${event.phase}/${event.visit}/${event.handler}/${task}`;
          must(!done.has(key), () => `${at}: ${key} settles after it is done`);
          if (event.statuses[n] === "done") done.add(key);
          const isPersisted = once.has(`${key}/persistence/0 is done`);
          must(
            event.statuses[n] !== "done" || !persists.has(key) || isPersisted,
            () => `${at}: ${key} is done before its result is persisted`,
          );
        });
        return;
      case "command.receipted": {
        const key = `${event.phase}/${event.visit}/${event.handler}/${event.task}`;
        const plan = run.plan.commands[event.step]?.command;
        if (plan?.persistence) persists.add(key);
        return event.result === null ? undefined : justOnce(`${key} has a result`);
      }
      case "postop.done": {
        const { phase, visit, handler, task, op, index } = event;
        return justOnce(`${phase}/${visit}/${handler}/${task}/${op}/${index} is done`);
      }
      default:
    }
  });
}

/** State is the fold of the journal: at any point, and through a snapshot at any point. */
function checkReplay(run: KernelRun, snapshots: ReadonlyMap<number, string>, at: string): void {
  const entries = encodeEntries(run.events, run.execution.id);
  const { id, seq } = run.execution;
  const folded = new Execution(id, run.plan);
  for (const [to, text] of [...snapshots].filter(([to]) => to % 7 === 0 || to === seq)) {
    replay(folded, entries, { to });
    expect(writeSnapshot(folded), `${at} at ${to}`).toBe(text);
    expect(writeSnapshot(readSnapshot(id, run.plan, text)), `${at} at ${to}`).toBe(text);
    const restored = restore(id, run.plan, { snapshot: text, entries });
    expect(writeSnapshot(restored), `${at} from ${to}`).toBe(snapshots.get(seq));
  }
}
