/** Random workflows and random messages to them, valid and invalid, all from one seed. */
import type { HandlerState } from "../../../src/kernel/execution.ts";
import type { Outcome } from "../../../src/kernel/message.ts";
import { SeededRandom } from "../../../src/std/random.ts";
import { KernelRun } from "./kernel-run.ts";

const NAMES = ["a", "b", "c", "d"];
const SIGNALS = ["go", "stop"];
const STATUSES = ["done", "failed", "crashed", "killed", "cancelled", "exception"] as const;
const RUNS = ["r0", "r1", "r2"].map((name) => ({ name, expression: "s => s" }));
const ERROR = JSON.stringify({ name: "Error", message: "boom" });

export class RandomRun {
  readonly random: SeededRandom;
  readonly run: KernelRun;

  constructor(seed: number) {
    this.random = new SeededRandom(seed);
    this.run = new KernelRun(randomDefinition(this.random), {
      ...(this.random.chance(0.1) ? { startAt: 1_000 + this.random.below(2_000) } : {}),
      ...(this.random.chance(0.1) ? { deadline: 1_000 + this.random.below(20_000) } : {}),
    });
  }

  /** Sends one random message, or lets time pass. */
  next(): void {
    const { random, run } = this;
    if (random.chance(0.15)) run.now += random.below(3_000);
    const handlers = run.execution.current?.handlers ?? [];
    const handler = handlers.length === 0 ? null : random.pick(handlers);
    switch (random.below(22)) {
      case 0:
      case 1:
      case 2:
      case 3:
      case 4:
        if (handler !== null) this.#receipts(handler);
        return;
      case 5:
      case 6:
        if (handler !== null) this.#page(handler);
        return;
      case 7:
        if (handler !== null) this.#seal(handler);
        return;
      case 8:
        if (handler !== null && random.chance(0.8)) this.#attempts(handler);
        else if (handler !== null) run.enumerationLost(handler.plan.name);
        return;
      case 9:
        run.signal(random.pick(SIGNALS), random.below(9), `s${random.below(30)}`);
        return;
      case 10:
        run.timer(random.pick([...run.execution.timers.keys(), "nothing"]));
        return;
      case 11:
        run.control(
          random.pick(["pause", "resume", "cancel", "retry", "retry"] as const),
          `c${random.below(40)}`,
        );
        return;
      case 12:
      case 13:
        if (handler !== null) this.#suspend(handler);
        return;
      case 14:
        if (handler !== null) this.#checkpoint(handler);
        return;
      case 15:
        if (handler?.plan.mode === "workflow") this.#children(handler);
        return;
      case 16:
        if (handler?.plan.mode === "workflow") this.#childEnded(handler);
        return;
      case 17:
      case 18:
      case 19:
        this.#postOp();
        return;
      default:
        if (random.chance(0.8)) run.drained();
        else run.send({ kind: "drained", phase: random.pick(NAMES), visit: 1, round: random.between(1, 3) });
    }
  }

  /** Does everything that is left, as a good owner and a good worker would. False: it is stuck. */
  finish(): boolean {
    const { run } = this;
    for (let turn = 0; turn < 500 && !run.execution.ended; turn++) {
      const { execution } = run;
      if (execution.status === "paused") run.control("resume", `resume-${turn}`);
      else if (execution.postops.size > 0) this.#performAll();
      else if (execution.draining) {
        for (const handler of execution.current?.handlers ?? []) this.#endChildren(handler, "cancelled");
        run.drained();
      } else if (execution.timers.size > 0) {
        run.now = Math.max(run.now, ...Array.from(execution.timers.values(), ({ due }) => due));
        for (const timer of Array.from(execution.timers.keys())) run.timer(timer);
      } else {
        // Sleeps in tasks are over by then.
        run.now += 3_000;
        for (const handler of [...(execution.current?.handlers ?? [])]) this.#complete(handler, turn);
      }
    }
    if (run.execution.ended) while (run.execution.postops.size > 0) this.#performAll();
    return run.execution.ended;
  }

  /** Every post-operation that is owed is done. */
  #performAll(): void {
    for (const { op, index, task } of [...this.run.execution.postops.values()])
      this.run.postOp(op, { index, task });
  }

  /** A try at one that is owed ends, or at one that is not. */
  #postOp(): void {
    const { random, run } = this;
    const owed = [...run.execution.postops.values()];
    const { op, index, task } =
      owed.length === 0 ? ({ op: "broadcast", index: 0, task: 0 } as const) : random.pick(owed);
    run.postOp(op, {
      index,
      task,
      ...(random.chance(0.5) ? { error: "down" } : {}),
      ...(random.chance(0.1) ? { fatal: true } : {}),
      ...(random.chance(0.1) ? { attempt: random.between(1, 4) } : {}),
    });
  }

  #complete(handler: HandlerState, turn: number): void {
    const { run } = this;
    const { name, mode, definition, enumerateUse } = handler.plan;
    if (run.execution.current?.handler(name) !== handler) return;
    if (mode === "waitFor" && handler.tasks.settled.size === 0)
      run.signal(definition.waitFor as string, null, `signal-${name}-${turn}`);
    if (handler.plan.waits) return;
    if (!handler.sealed && (enumerateUse !== null || handler.paged || handler.enumeration.ended > 0))
      run.seal(name);
    const open = Array.from({ length: handler.offered }, (_, i) => i).filter(
      (task) => !handler.tasks.settled.has(task),
    );
    const payload = this.#payload(handler);
    if (mode === "workflow") {
      run.children(name, open);
      return this.#endChildren(handler, "done");
    }
    for (const signal of handler.progress.signals)
      run.signal(signal, null, `signal-${name}-${signal}-${turn}`);
    const ready = open.filter((task) => !isWaiting(handler, task, run.now));
    if (ready.length > 0)
      run.receipts(
        name,
        ready.map((task) => ({ task, payload })),
      );
  }

  #endChildren(handler: HandlerState, status: "done" | "cancelled"): void {
    const { run } = this;
    for (const [task, { isOpen }] of [...handler.children])
      if (isOpen && run.execution.current?.handler(handler.plan.name) === handler)
        run.childEnded(handler.plan.name, task, { status });
  }

  /** An attempt ends as suspended. */
  #suspend(handler: HandlerState): void {
    const { random, run } = this;
    const task = random.below(handler.total);
    const next = handler.tasks.nextAttempt(task);
    const isSleep = random.chance(0.4);
    run.suspend(handler.plan.name, task, {
      name: `n${random.below(4)}`,
      attempt: random.chance(0.9) ? next : Math.max(1, next - 1),
      live: random.chance(0.9) && !isWaiting(handler, task, run.now),
      ...(isSleep ? { untilMs: run.now + random.below(3_000) } : { signal: random.pick(SIGNALS) }),
      ...(!isSleep && random.chance(0.5) ? { timeoutMs: random.between(1, 3_000) } : {}),
    });
  }

  #checkpoint(handler: HandlerState): void {
    const { random, run } = this;
    const { name, mode } = handler.plan;
    const task = random.chance(0.1) ? random.between(-1, handler.total + 1) : random.below(handler.total);
    const next = handler.tasks.nextAttempt(Math.max(0, task));
    const given = {
      attempt: random.chance(0.8) ? next : Math.max(1, next - 1),
      round: random.chance(0.9) ? run.execution.currentVisit().round : 1,
      live: random.chance(0.9) && !isWaiting(handler, task, run.now),
    };
    if (mode !== "script") run.stepDone(name, task, { name: `n${random.below(4)}`, result: 1, ...given });
    else {
      const runs = handler.progress.tasks.get(task)?.checkpoints.filter(({ kind }) => kind === "run");
      const done = handler.plan.definition.resume === false ? 0 : (runs?.length ?? 0);
      run.runDone(name, task, { index: random.chance(0.8) ? done : 0, state: random.below(9), ...given });
    }
  }

  #children(handler: HandlerState): void {
    const { random, run } = this;
    const due = Array.from({ length: handler.offered }, (_, i) => i).filter(
      (task) => handler.tasks.until(task) <= run.now || handler.children.get(task)?.isOpen === true,
    );
    if (due.length === 0) return;
    run.children(
      handler.plan.name,
      due.filter(() => random.chance(0.7)),
      random.chance(0.9) ? {} : { round: 9 },
    );
  }

  #childEnded(handler: HandlerState): void {
    const { random, run } = this;
    const task = random.below(handler.total + 1);
    const status = random.pick(["done", "failed", "failed", "cancelled"] as const);
    run.childEnded(handler.plan.name, task, random.chance(0.95) ? { status } : { status, child: "another" });
  }

  #receipts(handler: HandlerState): void {
    const { random, run } = this;
    const { name } = handler.plan;
    const visit = run.execution.currentVisit();
    const place = random.chance(0.05) ? `${random.pick(NAMES)}/1/${name}` : name;
    const receipts = Array.from({ length: random.between(1, 4) }, () => {
      const task = random.chance(0.05) ? random.between(-1, handler.total + 2) : random.below(handler.total);
      const status = random.chance(0.5) ? "done" : random.pick(STATUSES);
      const next = handler.tasks.nextAttempt(Math.max(0, task));
      const isHere = !isWaiting(handler, task, run.now);
      return {
        task,
        attempt: isHere
          ? random.chance(0.7)
            ? next
            : Math.max(1, random.between(next - 2, next + 1))
          : Math.max(1, next - random.between(1, 2)),
        round: random.chance(0.9) ? visit.round : Math.max(1, visit.round - 1),
        live: random.chance(0.7) && isHere,
        status,
        payload: status === "done" ? this.#payload(handler) : ERROR,
        ...(random.chance(0.1) ? { fatal: true } : {}),
        ...(random.chance(0.1) ? { retryAfterMs: random.below(5_000) } : {}),
      };
    });
    run.receipts(place, receipts);
  }

  #page(handler: HandlerState): void {
    const { random, run } = this;
    if (handler.plan.definition.tasks !== undefined || handler.plan.waits) return;
    if (handler.plan.enumerateUse === null && random.chance(0.9)) return;
    const tasks = Array.from({ length: random.below(4) }, () => random.below(10));
    const known = handler.paged ? handler.total : 0;
    run.page(handler.plan.name, tasks, {
      from: random.chance(0.8) ? known : random.between(-1, known + 1),
      attempt: handler.enumeration.ended + (random.chance(0.9) ? 1 : random.below(3)),
      ...(handler.identities === null ? {} : { identities: tasks.map(String) }),
    });
  }

  #seal(handler: HandlerState): void {
    const { random, run } = this;
    if (handler.plan.enumerateUse === null && !handler.paged && random.chance(0.9)) return;
    const outcome: Partial<Outcome> = random.chance(0.6)
      ? random.chance(0.1)
        ? { total: 99 }
        : {}
      : { status: random.pick(STATUSES), payload: ERROR, ...(random.chance(0.1) ? { fatal: true } : {}) };
    run.seal(handler.plan.name, outcome);
  }

  #attempts(handler: HandlerState): void {
    const { random, run } = this;
    const tasks = [random.below(handler.total + 1), random.below(handler.total + 1)].filter(
      (task) => !isWaiting(handler, task, run.now) && handler.plan.mode !== "workflow",
    );
    if (random.chance(0.5)) run.started(handler.plan.name, ...new Set(tasks));
    else run.lost(handler.plan.name, ...new Set(tasks));
  }

  #payload(handler: HandlerState): string {
    if (handler.plan.work !== "next") return String(this.random.below(100));
    return JSON.stringify(
      this.random.chance(0.95) ? this.random.pick(this.run.execution.currentVisit().plan.among) : "nowhere",
    );
  }
}

/** No worker has a task that waits. */
function isWaiting({ progress }: HandlerState, task: number, now: number): boolean {
  const waiting = progress.tasks.get(task)?.waiting ?? null;
  return waiting !== null && (waiting.due === null || waiting.due > now);
}

function randomDefinition(random: SeededRandom): object {
  const names = NAMES.slice(0, random.between(1, NAMES.length));
  const phases: object[] = names.map((name) => ({
    name,
    handlers: Object.fromEntries(
      Array.from({ length: random.below(3) }, (_, i) => [`h${i}`, randomHandler(random)]),
    ),
    maxVisits: random.between(1, 4),
    ...(random.chance(0.3) ? { next: { use: "next", among: [...names, "end"] } } : {}),
    ...(random.chance(0.4) ? { onError: "fix" } : {}),
  }));
  const fix = random.pick([
    { final: "failed" },
    { final: true },
    { next: "end" },
    { next: names[0] as string },
  ]);
  phases.push({ name: "end", handlers: {}, final: true });
  phases.push({ name: "fix", handlers: { fix: { use: "fix", retry: { attempts: 1 } } }, ...fix });
  return { name: "w", phases, ...(random.chance(0.3) ? { returns: { use: "returns" } } : {}) };
}

function randomHandler(random: SeededRandom): object {
  const retry = { attempts: random.between(1, 3), crashes: random.between(1, 3) };
  const tolerate = random.pick([0, 0, 1, "50%"]);
  switch (random.below(11)) {
    case 9:
    case 10:
      return randomCommand(random, { retry, tolerate });
    case 0:
      return { sleep: random.below(5_000) };
    case 1:
      return {
        waitFor: random.pick(SIGNALS),
        ...(random.chance(0.5) ? { timeout: random.between(1, 5_000), optional: random.chance(0.5) } : {}),
      };
    case 2:
      return { use: "one", retry, tolerate };
    case 3:
      return { use: "listed", tasks: Array.from({ length: random.below(5) }, (_, i) => i), retry, tolerate };
    case 4:
      return { use: "named", enumerate: { use: "list" }, identity: "", retry, tolerate };
    case 5:
      return { script: RUNS, retry, tolerate, ...(random.chance(0.5) ? { resume: false } : {}) };
    case 6:
      return {
        workflow: "kid",
        tasks: Array.from({ length: random.below(4) }, (_, i) => i),
        retry,
        tolerate,
      };
    case 7:
      return {
        workflow: "kid",
        ...(random.chance(0.5) ? { enumerate: { use: "list" } } : {}),
        retry,
        tolerate,
      };
    default:
      return { use: "paged", enumerate: { use: "list" }, retry, tolerate };
  }
}

function randomCommand(random: SeededRandom, options: object): object {
  const retry = { attempts: random.between(1, 3) };
  const postOps = {
    ...(random.chance(0.3) ? { cmd_result_enrichment: { prop_map: [{ key: "who", val: "me" }] } } : {}),
    ...(random.chance(0.6)
      ? { cmd_result_persistence: { target_statestore_name: "s", target_statestore_key: "k", retry } }
      : {}),
    cmd_result_broadcasts: Array.from({ length: random.below(3) }, (_, i) => ({
      url: `http://there/${i}`,
      await: random.chance(0.3),
      retry,
    })),
  };
  return {
    command: { cmd_type: "DO", cmd_metadata: { cmd_post_op: postOps } },
    topic: "CMD_DO",
    ...(random.chance(0.4) ? { tasks: Array.from({ length: random.below(4) }, (_, i) => i) } : {}),
    ...options,
  };
}
