/**
 * Bugs the simulator must find. Each is a small change to the compiled code of a copy: `find` must occur, or the bug
 * no longer fits the code and the hunt says so. `seed` is one that finds it, replayed in every CI run.
 */
export type PlantedBug = MarkedBug | TextBug;

/** A bug at places that are marked in the source: `@plant NAME`, and `@plant NAME 2`, ... if there are more than one. */
export interface MarkedBug extends Seeded {
  /** The template that stands at the marked place (see plant.ts), or one for each place. */
  readonly change: string | readonly string[];
}

/** A bug in a text of compiled code. */
export interface TextBug extends Seeded {
  readonly change?: never;
  readonly file: string;
  readonly find: string;
  readonly replace: string;
  /** What else is to change, in that file or in another. */
  readonly also?: { readonly file?: string; readonly find: string; readonly replace: string };
}

interface Seeded {
  readonly name: string;
  readonly seed: number;
  /** It needs several nodes over one database: `rondo sim --cluster`. */
  readonly cluster?: boolean;
  /** It is found by `rondo sim --drill`. */
  readonly drill?: boolean;
}

export const PLANTED_BUGS: readonly PlantedBug[] = [
  {
    name: "counter instead of set",
    file: "src/kernel/tasks/receipts.js",
    find: "if (!handler.isClosed(task)) {",
    replace: "if (true) {",
    seed: 17,
  },
  {
    name: "effect before commit",
    file: "src/engine/commit/committer.js",
    find: 'slot.status = "dirty";',
    replace: "",
    seed: 1,
  },
  {
    name: "acknowledged before it is durable",
    file: "src/engine/commit/committer.js",
    find: "for (const result of idle)",
    replace:
      'if (stepped.length > 0) this.committed(this.#commits, { kind: "ok", exists: [], fenced: [] });\n        for (const result of idle)',
    seed: 1,
  },
  {
    name: "timer not stored",
    file: "src/engine/commit/stepping.js",
    find: "timersSet.push({ timer: event.timer, due: event.due });",
    replace: ";",
    seed: 1,
  },
  {
    name: "repeated messages applied again",
    file: "src/kernel/control.js",
    find: "const before = execution.applied.get(message.id);",
    replace: "const before = undefined;",
    seed: 9,
  },
  {
    name: "snapshot forgets kept signals",
    file: "src/kernel/journal/snapshot.js",
    find: "signals: [...execution.signals],",
    replace: "signals: [],",
    seed: 25,
  },
  {
    name: "snapshot of an older state",
    file: "src/engine/commit/stepping.js",
    find: "body: seal(writeSnapshot(execution),",
    replace: "body: seal((slot.staleBody ??= writeSnapshot(execution)),",
    seed: 1,
  },
  {
    name: "suspects started unrecorded",
    file: "src/engine/cache/restore-execution.js",
    find: "desk.carefulBelow = Math.max(desk.carefulBelow, desk.offeredEnd);",
    replace: "",
    seed: 1,
  },
  {
    name: "permits not given back",
    file: "src/engine/node-state.js",
    find: "this.limits.give(permit);",
    replace: "void permit;",
    seed: 1,
  },
  {
    name: "limit off by one",
    file: "src/engine/limits/limits.js",
    find: "Math.min(max - held,",
    replace: "Math.min(max - held + 1,",
    seed: 1,
  },
  {
    name: "handler ends before it is sealed",
    file: "src/kernel/advance.js",
    find: "handler.sealed &&",
    replace: "",
    seed: 1,
  },
  {
    name: "phase ends while attempts are open",
    file: "src/engine/commit/after-commit.js",
    find: "if (slot.leaseCount > 0 || isAsked ||",
    replace: "if (isAsked ||",
    seed: 4,
  },
  {
    name: "newest signal first",
    file: "src/kernel/apply.js",
    find: "queue?.shift()",
    replace: "queue?.pop()",
    seed: 7,
  },
  {
    name: "retry clears what is done",
    file: "src/kernel/tasks/task-table.js",
    find: "if (this.failed.has(n))",
    replace: "if (true)",
    seed: 25,
  },
  {
    name: "unknown outcome taken for success",
    file: "src/engine/commit/committer.js",
    find: "else\n                this.#cleanUp.again(stepped);\n        }\n    }\n    /** They do",
    replace:
      'else {\n stepped.slot.status = "clean";\n this.#cleanUp.finish(stepped);\n }\n        }\n    }\n    /** They do',
    seed: 3,
  },
  {
    name: "poison beside others",
    file: "src/engine/leases/lease-granter.js",
    find: "if (crashes >= ALONE_AFTER_CRASHES &&",
    replace: "if (false &&",
    seed: 48,
  },
  {
    name: "crashes not counted",
    file: "src/kernel/tasks/receipts.js",
    find: "if (crashes < handler.plan.crashes)",
    replace: "if (true)",
    seed: 4,
  },
  {
    name: "retry before its time",
    file: "src/kernel/tasks/task-table.js",
    find: "if (until <= want.now && want.due.length < want.max)",
    replace: "if (want.due.length < want.max)",
    seed: 4,
  },
  {
    name: "page opened without a mark",
    file: "src/engine/commit/stepping.js",
    find: "marks[desk.markName] = end;",
    replace: ";",
    seed: 4,
  },
  {
    name: "pause does not close the gate",
    file: "src/kernel/execution.js",
    find: 'this.status === "running" &&',
    replace: '(this.status === "running" || this.status === "paused") &&',
    seed: 25,
  },
  {
    name: "late done after a later step",
    file: "src/kernel/tasks/receipts.js",
    find: "!isPassed &&",
    replace: "",
    seed: 283,
  },
  {
    name: "step journaled though stale",
    file: "src/kernel/tasks/task-waits.js",
    find: "if (!isLive)",
    replace: "if (!isLive && (handler.tasks.settled.has(task) || task >= handler.offered))",
    seed: 162,
  },
  {
    name: "signal taken twice",
    file: "src/kernel/apply.js",
    find: 'if (event.reason === "signalled" && signal !== null)\n        takeSignal(execution, signal);',
    replace: "",
    seed: 7,
  },
  {
    name: "sleep does not wait",
    file: "src/kernel/apply.js",
    find: "until: due ?? NEVER",
    replace: "until: due === null ? NEVER : execution.now",
    seed: 7,
  },
  {
    name: "suspended burns an attempt",
    file: "src/kernel/apply.js",
    find: '{ burns: "nothing", until: due ?? NEVER }',
    replace: '{ burns: "attempt", until: due ?? NEVER }',
    seed: 54,
  },
  {
    name: "time limit of a wait forgotten",
    file: "src/kernel/tasks/task-waits.js",
    find: "|| timeoutMs === undefined)",
    replace: "|| timeoutMs !== null)",
    seed: 4,
  },
  {
    name: "runs done again",
    file: "src/engine/leases/lease-granter.js",
    find: "const runs = journaledRuns(desk.state, task);",
    replace: "const runs = [];",
    seed: 3,
  },
  {
    name: "letter lost with an unknown commit",
    file: "src/engine/commit/committer.js",
    find: "this.#letters.rescan();",
    replace: "",
    seed: 381,
  },
  {
    name: "letters not looked for after a restart",
    file: "src/engine/mailbox/mailbox.js",
    find: "    #wantsScan = true;",
    replace: "    #wantsScan = false;",
    seed: 97,
  },
  {
    name: "letter taken before it is applied",
    file: "src/engine/mailbox/mailbox.js",
    find: "this.#open.set(letter.id, letter.to);",
    replace:
      "this.#open.set(letter.id, letter.to);\n        this.#done.push({ id: letter.id, to: letter.to });",
    seed: 37,
  },
  {
    name: "cancel overtakes a start",
    file: "src/engine/mailbox/mailbox.js",
    find: "if (before !== undefined)",
    replace: "if (false)",
    seed: 200,
  },
  {
    name: "children not told to stop",
    file: "src/kernel/step.js",
    find: "if (execution.draining)\n        cancelChildren(step);",
    replace: "",
    seed: 6,
  },
  {
    name: "children not told to pause",
    file: "src/kernel/control.js",
    find: 'notifyChildren(step, "pause", { id, reason });',
    replace: "",
    seed: 35,
  },
  {
    name: "open children not counted",
    file: "src/kernel/tasks/children.js",
    find: "handler.openChildren++;",
    replace: ";",
    seed: 1,
  },
  {
    name: "purged child is not started again",
    file: "src/kernel/tasks/children.js",
    find: 'step.send(child, {\n            kind: "start",',
    replace: 'if (known === undefined)\n          step.send(child, {\n            kind: "start",',
    seed: 42,
  },
  {
    name: "end of a child counted twice",
    file: "src/kernel/tasks/children.js",
    find: "known?.isOpen !== true ||",
    replace: "",
    seed: 28,
  },
  {
    name: "pages read start no children",
    file: "src/engine/node.js",
    find: '// Not only workers wait for it: children are started from it too.\n        if (slot.status === "clean")\n            this.#cleanUp.becameClean(slot);',
    replace: "node.offerAll(slot);",
    seed: 1,
  },
  {
    name: "rate window too short",
    file: "src/engine/limits/rate-window.js",
    find: "Number.POSITIVE_INFINITY) + this.#rate.per",
    replace: "Number.POSITIVE_INFINITY) + this.#rate.per / 2",
    seed: 8,
  },
  {
    name: "rate in fixed windows",
    file: "src/engine/limits/rate-window.js",
    find: "if (limit <= BUCKETS)\n            return time;",
    replace: "if (limit <= BUCKETS)\n            return Math.floor(time / per) * per;",
    seed: 11,
  },
  {
    name: "permit returned to its giver",
    file: "src/engine/limits/limits.js",
    find: "this.#limits.get(name)?.queue.isBehind(who) !== true;",
    replace: "true;",
    seed: 4,
  },
  {
    name: "priority ignores dirty executions",
    file: "src/engine/commit/committer.js",
    find: "node.holdLower(slot);",
    replace: "",
    seed: 78,
  },
  {
    name: "nobody is called when a permit comes back",
    file: "src/engine/limits/limits.js",
    find: "if (limit.queue.size > 0)\n            this.#callable.add(name);",
    replace: "if (limit.queue.size > 0)\n            void name;",
    seed: 1,
  },
  {
    name: "rate forgotten by a restart",
    file: "src/engine/node-state.js",
    find: "usedUpAt: this.tenures.succeedsSince()",
    replace: "usedUpAt: null",
    seed: 11,
  },
  {
    name: "permit of a project not given back",
    file: "src/engine/limits/permits.js",
    find: "return permits.filter((permit) => permit !== ofRate);",
    replace: "return permits.filter((permit) => permit !== ofRate && permit !== ofProject);",
    seed: 1,
  },
  {
    name: "limit of a project ignored",
    file: "src/engine/limits/permits.js",
    find: "[ofRate, ofProject, concurrency",
    replace: "[ofRate, null, concurrency",
    seed: 4,
  },
  {
    name: "lines stored again after adoption",
    file: "src/engine/leases/report-intake.js",
    find: "report.epoch !== slot.tenure.epoch || ",
    replace: "",
    seed: 65,
  },
  {
    name: "lines stored again after an unknown commit",
    file: "src/engine/leases/report-intake.js",
    find: " || (report.lines[0]?.n ?? 0) <= before",
    replace: "",
    seed: 1,
  },
  {
    name: "retry leaves dead letters",
    file: "src/engine/commit/stepping.js",
    find: "write.deadLettersCleared = clearedFrom;",
    replace: ";",
    seed: 25,
  },
  {
    name: "lost before its worker is asked",
    file: "src/engine/leases/lease-sweeper.js",
    find: "(canAsk ? asked : silent)",
    replace: "(false ? asked : silent)",
    seed: 21,
  },
  {
    name: "purge while it is read",
    file: "src/engine/cache/execution-cache.js",
    find: "this.#purging.add(id)",
    replace: "void id",
    seed: 83,
  },
  {
    name: "runs counted, not identified",
    file: "src/kernel/tasks/script-runs.js",
    find: "if (index !== null && index !== found)",
    replace: "if (false)",
    also: {
      find: "const found = script.findIndex((run) => run.name === name);\n    if (found < 0)",
      replace: "const found = index ?? 0;\n    if (found < 0)",
    },
    seed: 49,
  },
  {
    name: "a finished run counts again",
    file: "src/kernel/tasks/script-runs.js",
    find: "isRepeat: index < finished",
    replace: "isRepeat: false",
    seed: 1,
  },
  {
    name: "lapsed claim given out under the same id",
    file: "src/engine/node-state.js",
    find: "desk.lapse(lease.task);",
    replace: "",
    seed: 4,
  },
];
