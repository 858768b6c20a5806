/**
 * Bugs the simulator must find. Each is a small change to the compiled code of a copy: `find` must occur, or the bug
 * no longer fits the code and the hunt says so. `seed` is one that finds it, replayed in every CI run.
 */
export interface PlantedBug {
  readonly name: string;
  readonly file: string;
  readonly find: string;
  readonly replace: string;
  readonly seed: number;
}

export const PLANTED_BUGS: readonly PlantedBug[] = [
  {
    name: "counter instead of set",
    file: "kernel/receipts.js",
    find: "if (!handler.tasks.settled.has(task)) {",
    replace: "if (true) {",
    seed: 1,
  },
  {
    name: "effect before commit",
    file: "engine/node.js",
    find: 'slot.status = "dirty";',
    replace: "",
    seed: 1,
  },
  {
    name: "acknowledged before it is durable",
    file: "engine/node.js",
    find: "for (const result of idle)",
    replace:
      'if (stepped.length > 0) this.input({ kind: "committed", commit: this.#commits, verdict: { kind: "ok", exists: [], fenced: [] } }, node.now);\n        for (const result of idle)',
    seed: 1,
  },
  {
    name: "timer not stored",
    file: "engine/stepping.js",
    find: "timersSet.push({ timer: event.timer, due: event.due });",
    replace: ";",
    seed: 3,
  },
  {
    name: "repeated messages applied again",
    file: "kernel/control.js",
    find: "const before = execution.applied.get(message.id);",
    replace: "const before = undefined;",
    seed: 6,
  },
  {
    name: "snapshot forgets kept signals",
    file: "kernel/snapshot.js",
    find: "signals: [...execution.signals],",
    replace: "signals: [],",
    seed: 16,
  },
  {
    name: "snapshot of an older state",
    file: "engine/stepping.js",
    find: "body: writeSnapshot(execution)",
    replace: "body: (slot.staleBody ??= writeSnapshot(execution))",
    seed: 1,
  },
  {
    name: "suspects started unrecorded",
    file: "engine/residency.js",
    find: "desk.carefulBelow = Math.max(desk.carefulBelow, desk.offeredEnd);",
    replace: "",
    seed: 2,
  },
  {
    name: "permits not given back",
    file: "engine/node-state.js",
    find: "this.limits.give(permit);",
    replace: "void permit;",
    seed: 2,
  },
  {
    name: "limit off by one",
    file: "engine/limits.js",
    find: "limit.held < limit.max",
    replace: "limit.held <= limit.max",
    seed: 4,
  },
  {
    name: "handler ends before it is sealed",
    file: "kernel/advance.js",
    find: "handler.sealed &&",
    replace: "",
    seed: 1,
  },
  {
    name: "phase ends while attempts are open",
    file: "engine/clean-up.js",
    find: "if (slot.leaseCount > 0 || isAsked)",
    replace: "if (isAsked)",
    seed: 4,
  },
  {
    name: "newest signal first",
    file: "kernel/apply.js",
    find: "queue?.shift()",
    replace: "queue?.pop()",
    seed: 181,
  },
  {
    name: "retry clears what is done",
    file: "kernel/task-table.js",
    find: "if (this.failed.has(n))",
    replace: "if (true)",
    seed: 6,
  },
  {
    name: "unknown outcome taken for success",
    file: "engine/node.js",
    find: "this.#cleanUp.again(stepped);\n    }",
    replace: '{ stepped.slot.status = "clean"; this.#cleanUp.finish(stepped); }\n    }',
    seed: 2,
  },
  {
    name: "poison beside others",
    file: "engine/granting.js",
    find: "const isAlone = state.tasks.crashes(task) >= ALONE_AFTER_CRASHES;",
    replace: "const isAlone = false;",
    seed: 4,
  },
  {
    name: "crashes not counted",
    file: "kernel/receipts.js",
    find: "if (crashes < handler.plan.crashes)",
    replace: "if (true)",
    seed: 4,
  },
  {
    name: "retry before its time",
    file: "kernel/task-table.js",
    find: "if (until <= want.now && want.due.length < want.max)",
    replace: "if (want.due.length < want.max)",
    seed: 60,
  },
  {
    name: "page opened without a mark",
    file: "engine/stepping.js",
    find: "marks[desk.markName] = end;",
    replace: ";",
    seed: 1,
  },
  {
    name: "pause does not close the gate",
    file: "kernel/execution.js",
    find: 'this.status === "running" &&',
    replace: '(this.status === "running" || this.status === "paused") &&',
    seed: 4,
  },
];
