/** Planted bugs about who gets the work, and as what. */
import type { PlantedBug } from "./bugs.ts";

export const WORKER_BUGS: readonly PlantedBug[] = [
  {
    name: "version range ignored",
    file: "src/engine/dispatch/worker-roster.js",
    find: "highest(this.versions(wanted.use, project), wanted.range)",
    replace: "highest(this.versions(wanted.use, project), null)",
    seed: 4,
  },
  {
    name: "lower version gets work too",
    file: "src/engine/dispatch/worker-roster.js",
    find: "const served = worker.served(wanted.use, version);",
    replace: "const served = [...worker.versionsOf(wanted.use)].map((v) => worker.served(wanted.use, v))[0];",
    seed: 1,
  },
  {
    name: "infer from who is there",
    file: "src/engine/leases/lease-granter.js",
    find: "else if (node.enumeratorAt(slot, desk) !== null)\n        return;",
    replace:
      "else if (node.enumeratorAt(slot, desk) === worker.id)\n        giveEnumeration(node, slot, desk, worker);",
    also: {
      file: "src/engine/node-state.js",
      find: " && this.enumeratorAt(slot, desk) === null",
      replace: "",
    },
    seed: 4,
  },
  {
    name: "enumeration given to code that only processes",
    file: "src/engine/dispatch/worker-roster.js",
    find: "return enumerates ?? this.enumeratorOf(wanted, project) === null;",
    replace: "return enumerates !== undefined || this.enumeratorOf(wanted, project) === null;",
    seed: 7,
  },
  {
    name: "enumeration given to code that does not say, beside code that enumerates",
    file: "src/engine/dispatch/worker-roster.js",
    find: "return enumerates ?? this.enumeratorOf(wanted, project) === null;",
    replace: "return enumerates ?? true;",
    seed: 7,
  },
  {
    name: "input given to code that enumerates",
    file: "src/engine/node-state.js",
    find: "if (execution === null || !state.needsSingleCode)",
    replace: "if (true)",
    seed: 4,
  },
];
