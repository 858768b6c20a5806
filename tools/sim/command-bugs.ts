/** Bugs of commands and post-operations that the simulator must find. */
import type { PlantedBug } from "./bugs.ts";

export const COMMAND_BUGS: readonly PlantedBug[] = [
  {
    name: "done before it is persisted",
    file: "src/kernel/tasks/receipts.js",
    find: "if (!command.holds)",
    replace: "if (true)",
    seed: 3,
  },
  {
    name: "owed post-operations are not found again",
    file: "src/engine/commit/stepping.js",
    find: "Math.min(slot.owedDue, ",
    replace: "Math.min(Number.POSITIVE_INFINITY, ",
    seed: 3,
  },
  {
    name: "a second receipt sends the next command again",
    file: "src/kernel/execution.js",
    find: "return this.tasks.settled.has(task) || this.receipted.has(task);",
    replace: "return this.tasks.settled.has(task);",
    seed: 34,
  },
  {
    name: "snapshot forgets what is owed",
    file: "src/kernel/journal/snapshot.js",
    find: "postops: [...execution.postops.values()],",
    replace: "postops: [],",
    seed: 3,
  },
  {
    name: "broadcasts do not wait for the persistence",
    file: "src/kernel/command/owed-op.js",
    find: 'return owe(execution, receipt, "persistence", 0);',
    replace: 'owe(execution, receipt, "persistence", 0);',
    seed: 3,
  },
  {
    name: "a retry sends a command again that has its result",
    file: "src/kernel/command/command-state.js",
    find: "for (const [task, { seq, attempt }] of handler.receipted) {",
    replace:
      "for (const [task, { seq, attempt }] of [...handler.receipted]) { handler.receipted.delete(task); continue;",
    seed: 144,
  },
  {
    name: "a visit ends while its persistence is owed",
    file: "src/kernel/command/owed-op.js",
    find: "for (const { awaited } of execution.postops.values())",
    replace: "for (const { awaited } of [])",
    seed: 81,
  },
  {
    name: "post-operation before its time",
    file: "src/engine/post-ops/post-op-queue.js",
    find: "op.until > this.#node.now ||",
    replace: "",
    seed: 10,
  },
  {
    name: "one post-operation too many",
    file: "src/engine/post-ops/post-op-pool.js",
    find: ">= this.#each",
    replace: "> this.#each",
    seed: 24,
  },
  {
    name: "a broadcast overtakes the one before it",
    file: "src/engine/post-ops/post-op-queue.js",
    find: "held.add(op.receipt);",
    replace: "void op;",
    seed: 161,
  },
  {
    name: "post-operation before its commit",
    file: "src/engine/node.js",
    find: "grantAll(node);\n        if",
    replace:
      "for (const slot of node.slots.values()) this.#postOps.attend(slot);\n        grantAll(node);\n        if",
    seed: 3,
  },
  {
    name: "a retry forgets broadcasts that were given up",
    file: "src/engine/commit/stepping.js",
    find: "if (failed >= clearedFrom)",
    replace: "if (false)",
    seed: 3,
  },
  {
    name: "a command refers to the result of an earlier visit",
    file: "src/kernel/command/command-state.js",
    find: "execution.referred.set(reference.text,",
    replace: "execution.referred.has(reference.text) || execution.referred.set(reference.text,",
    seed: 24,
  },
  {
    name: "enrichment is forgotten",
    file: "src/kernel/tasks/receipts.js",
    find: "enrich(payload, command.enrichment)",
    replace: "enrich(payload, [])",
    seed: 5,
  },
  {
    name: "a command counts as its own receipt",
    file: "src/broker/topics/read-receipt.js",
    find: "if (!isStatus(status))",
    replace:
      'if (status === undefined) return { status: "done", payload: "{}" };\n        if (!isStatus(status))',
    seed: 3,
  },
  {
    name: "an empty proc_err is a success",
    file: "src/broker/topics/read-receipt.js",
    find: "if (proc_err !== undefined && proc_err !== null)",
    replace:
      'if (proc_err === "") return { status: "done", payload: "{}" };\n    if (proc_err !== undefined && proc_err !== null)',
    seed: 18,
  },
];
